/* ManiFlow's transformer and encoder: a policy of its published code, reproduced (tests/reference/maniflow.py);
 * parameter counts; what is refused. */
#include <stdlib.h>
#include <string.h>

#include "flow/sampler.h"
#include "run/safetensors.h"
#include "device_under_test.h"
#include "policies.h"

enum { B = 4, K = 4, H = 16, A = 10, D = H * A, TO = 2, N = 32, C = 6, S = 9, DIM = N * C + S, O = TO * DIM, F = 16 };

static struct mf_safetensors file;
static struct mf_engine *engine;

static struct mf_policy_spec official(void)
{
    struct mf_err err;
    struct mf_policy_spec s = {.n_obs_steps = TO,
                               .action_dim = A,
                               .horizon = H,
                               .n_action_steps = 8,
                               .action_offset = 1,
                               .K = K,
                               .noise_method = MF_FLOW_SDE,
                               .n_critic = 3,
                               .critic = {512, 256, 128}};
    s.net = (struct mf_net_spec){.layers = 2,
                                 .heads = 4,
                                 .width = 32,
                                 .encoder_dim = F,
                                 .time_dim = 16,
                                 .qkv_bias = true,
                                 .qk_norm = true,
                                 .pointwise = true,
                                 .color = true};
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "point_cloud", .dim = {N, C}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "agent_pos", .dim = {S}});
    must(mf_net_find(&s.net.net, "ditx", &err), &err);
    return s;
}

/* A copy of an array of the fixture; NULL: it has none. */
static float *load(const char *group, const char *name)
{
    char full[192];
    snprintf(full, sizeof full, "%s%s", group, name);
    const struct mf_array *a = mf_safetensors_find(&file, full);
    float *x = a ? malloc(a->bytes) : NULL;
    if (a)
        memcpy(x, a->data, a->bytes);
    return x;
}

static void same(const char *what, const float *got, const float *want, size_t n, double bound)
{
    double worst = 0, most = 1e-12;
    for (size_t i = 0; i < n; i++) {
        worst = worse(worst, got[i] == got[i] ? fabs((double)got[i] - (double)want[i]) : 1e9);
        most = fmax(most, fabs((double)want[i]));
    }
    if (!ok(worst <= bound * most, "%s", what))
        printf("#   off by %g of %g\n", worst, most);
}

/* Scale or offset of one step: each point's, then the state's. */
static void set_normalizer(float *to, const char *what)
{
    float *points = load("normalizer/point_cloud/", what), *state = load("normalizer/agent_pos/", what);
    for (int i = 0; i < N * C; i++)
        to[i] = points[i % C];
    memcpy(to + N * C, state, S * sizeof *to);
    free(points), free(state);
}

static void set_weights(struct mf_params *ps, const char *group)
{
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        float *v = load(group, p->name);
        if (v)
            memcpy(ps->value + p->at, v, (size_t)p->rows * (size_t)p->cols * sizeof *v);
        free(v);
    }
    mf_params_touch(ps);
}

static struct mf_policy loaded(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = official();
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 1);
    set_weights(&p.params, "weight/");
    set_normalizer(p.obs_scale, "scale");
    set_normalizer(p.obs_offset, "offset");
    float *scale = load("normalizer/action/", "scale"), *offset = load("normalizer/action/", "offset");
    memcpy(p.action_scale, scale, A * sizeof *scale);
    memcpy(p.action_offset, offset, A * sizeof *scale);
    free(scale), free(offset);
    return p;
}

/* (B, O) as a stream's rows have it. */
static void observations(float *flat)
{
    float *points = load("", "obs_point_cloud"), *state = load("", "obs_agent_pos");
    for (int i = 0; i < B * TO; i++) {
        memcpy(flat + i * DIM, points + i * N * C, N * C * sizeof *flat);
        memcpy(flat + i * DIM + N * C, state + i * S, S * sizeof *flat);
    }
    free(points), free(state);
}

static int has_all(const struct mf_params *ps)
{
    int missing = 0, mine = 0;
    for (int i = 0; i < file.n; i++) {
        const char *name = file.tensors[i].name;
        if (!strncmp(name, "weight/", 7))
            missing += mf_param_find(ps, name + 7) < 0;
    }
    for (int i = 0; i < ps->n; i++) {
        char name[192];
        snprintf(name, sizeof name, "weight/%s", ps->p[i].name);
        mine += ps->p[i].group != MF_GROUP_CRITIC && !mf_safetensors_find(&file, name);
    }
    return missing + mine;
}

static void forward(struct mf_policy *p, const float *obs)
{
    struct mf_err err;
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val o = mf_input(g, 1, O), x = mf_input(g, K + 1, D), t = mf_shared(g, K, 1), d = mf_shared(g, K, 1);
    struct mf_share share = mf_net_features(g, s, o, false), time = s->net->time(g, s, t, d);
    struct mf_val tokens = mf_concat(g, 2, share.features);
    s->net->encode(g, s, &share);
    struct mf_val v = s->net->velocity(g, s, &share, &time, mf_slice_rows(g, x, 0, K));
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    mf_plan_set(plan, t, (float[K]){0, .25f, .5f, .75f});
    mf_plan_set(plan, d, (float[K]){.25f, .25f, .25f, .25f});
    static float x_next[B * K * D], want[B * K * D], encoded[B * TO * N * (F + 64)], nobs[B * O];
    float *traj = load("", "traj"), *vis = load("", "vis_cond");
    mf_policy_normalize(p, B, obs, nobs);
    struct mf_feed feed[] = {{o, nobs, O, false}, {x, traj, (K + 1) * D, false}};
    struct mf_fetch fetch[] = {{v, x_next, K * D}, {tokens, encoded, TO * N * (F + 64)}};
    must(
        mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 2, .fetch = fetch, .n_fetches = 2}, &err),
        &err);
    for (int b = 0; b < B; b++)
        for (int i = 0; i < K * D; i++) {
            x_next[b * K * D + i] = traj[b * (K + 1) * D + i] + x_next[b * K * D + i] / K;
            want[b * K * D + i] = traj[b * (K + 1) * D + D + i];
        }
    same("the encoder's tokens", encoded, vis, sizeof encoded / sizeof *encoded, 1e-5);
    same("each step of the trajectory, all at once", x_next, want, B * K * D, 1e-5);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(traj), free(vis);
}

static void sampling(struct mf_policy *p, const float *obs)
{
    struct mf_err err;
    struct mf_sampler *m;
    float *noise = load("", "noise"), *action = load("", "action"), got[B * 8 * A];
    must(mf_sampler_new(&m, engine, p, true, &err), &err);
    must(mf_sampler_run(m, B, &(struct mf_sample){.obs = obs, .noise = noise, .actions = got}, &err), &err);
    same("the executed actions", got, action, B * 8 * A, 1e-5);
    mf_sampler_free(m);
    free(noise), free(action);
}

/* x_t, t, step and target of the batch's rows: three of the flow loss, one of the consistency loss. */
struct batch {
    float x[B * D], t[B], d[B], target[B * D], weight[B];
};

static void part(float *to, const char *name, size_t n)
{
    static const char *const groups[] = {"flow_", "ct_"};
    for (int i = 0; i < 2; i++) {
        float *v = load(groups[i], name);
        size_t rows = i ? 1 : B - 1;
        memcpy(to + (i ? (B - 1) * n : 0), v, rows * n * sizeof *v);
        free(v);
    }
}

static struct mf_share shares(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val o)
{
    struct mf_share obs = mf_net_features(g, s, o, false);
    s->net->encode(g, s, &obs);
    return obs;
}

/* The teacher's velocity gives the consistency target: the EMA's weights behind the online encoder. */
static void teacher(struct mf_policy *p, const float *nobs, struct batch *b)
{
    struct mf_err err;
    struct mf_params online = p->params;
    must(mf_params_alloc(&p->params, &err), &err);
    memcpy(p->params.value, online.value, online.size * sizeof(float));
    set_weights(&p->params, "ema/");
    struct mf_graph *g = mf_graph_new(&p->params);
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_val o = mf_input(g, 1, O), x = mf_input(g, 1, D), t = mf_input(g, 1, 1), d = mf_input(g, 1, 1);
    struct mf_share obs = shares(g, s, o), time = s->net->time(g, s, t, d);
    struct mf_val v = s->net->velocity(g, s, &obs, &time, x);
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    float *noise = load("", "ct_x0"), *data = load("", "nactions"), from = b->t[B - 1], step = b->d[B - 1],
          to = fminf(from + step, 1), x2[D], got[D], target[D];
    for (int i = 0; i < D; i++)
        x2[i] = (1 - to) * noise[i] + to * data[(B - 1) * D + i];
    struct mf_feed feed[] = {
        {o, nobs + (B - 1) * O, O, false}, {x, x2, D, false}, {t, &to, 1, false}, {d, &step, 1, false}};
    must(mf_plan_run(plan,
                     &(struct mf_batch){
                         .n = 1, .feed = feed, .n_feeds = 4, .fetch = &(struct mf_fetch){v, got, D}, .n_fetches = 1},
                     &err),
         &err);
    for (int i = 0; i < D; i++)
        target[i] = (x2[i] + (1 - to) * got[i] - b->x[(B - 1) * D + i]) / (1 - from);
    same("the teacher's target", target, b->target + (B - 1) * D, D, 1e-5);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(p->params.value);
    p->params = online;
    free(noise), free(data);
}

static void gradients(const struct mf_params *ps, const float *grads)
{
    double worst = 0, most = 0, apart = 0, all = 0;
    int found = 0;
    for (int i = 0; i < ps->n; i++) {
        float *want = load("grad/", ps->p[i].name);
        for (int j = 0; want && j < ps->p[i].rows * ps->p[i].cols; j++) {
            double w = (double)want[j], g = (double)grads[ps->p[i].at + (size_t)j];
            worst = worse(worst, fabs(w - g)), most = fmax(most, fabs(w));
            apart += (w - g) * (w - g), all += w * w;
        }
        found += want != NULL;
        free(want);
    }
    ok(found == 83 && worst <= 1e-5 * most && sqrt(apart / all) <= 1e-5,
       "gradients of %d tensors: off by %.1e of the largest, %.1e of the norm", found, worst / most, sqrt(apart / all));
}

static void adam_step(struct mf_policy *p, struct mf_plan *plan, const struct mf_batch *run)
{
    struct mf_err err;
    struct mf_adam adam;
    struct mf_verdict v;
    const struct mf_step step = {.lr = {[MF_GROUP_POLICY] = 1e-4, [MF_GROUP_ENCODER] = 1e-4}};
    must(mf_adam_init(&adam, NULL, &p->params, &err), &err);
    adam.beta2 = .95;
    adam.weight_decay = 1e-3;
    must(mf_plan_learn(plan, run, &step, &adam, &v, &err) || mf_engine_settle(engine, &p->params, &adam, &err), &err);
    double worst = 0;
    int found = 0;
    for (int i = 0; i < p->params.n; i++) {
        const struct mf_param *q = &p->params.p[i];
        float *want = load("after_adamw/", q->name), *grad = load("grad/", q->name);
        for (int j = 0; want && j < q->rows * q->cols; j++)
            if (fabsf(grad[j]) > 1e-6f) /* a first step is the gradient's sign: rounding has none */
                worst = worse(worst, fabs((double)p->params.value[q->at + (size_t)j] - (double)want[j]));
        found += want != NULL;
        free(want), free(grad);
    }
    ok(found > 20 && worst <= 1e-6, "one step of AdamW: off by %.1e", worst);
    mf_adam_release(&adam);
}

static void learning(struct mf_policy *p, const float *obs)
{
    static struct batch b;
    static float nobs[B * O];
    struct mf_err err;
    const struct mf_net_spec *s = &p->spec.net;
    part(b.x, "x_t", D), part(b.t, "t", 1), part(b.d, "target_t", 1), part(b.target, "v_target", D);
    for (int i = 0; i < B; i++)
        b.weight[i] = i < B - 1 ? 1.0f / (B - 1) : 1;
    mf_policy_normalize(p, B, obs, nobs);
    teacher(p, nobs, &b);

    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val o = mf_input(g, 1, O), x = mf_input(g, 1, D), t = mf_input(g, 1, 1), d = mf_input(g, 1, 1);
    struct mf_val target = mf_input(g, 1, D), weight = mf_input(g, 1, 1);
    struct mf_share share = shares(g, s, o), time = s->net->time(g, s, t, d);
    struct mf_val loss = mf_mse(g, s->net->velocity(g, s, &share, &time, x), target, weight);
    mf_loss(g, loss, 1);
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    float each[B];
    struct mf_feed feed[] = {{o, nobs, O, false}, {x, b.x, D, false},           {t, b.t, 1, false},
                             {d, b.d, 1, false},  {target, b.target, D, false}, {weight, b.weight, 1, false}};
    struct mf_fetch fetch = {loss, each, 1};
    must(mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 6, .fetch = &fetch, .n_fetches = 1},
                     &err),
         &err);
    float *flow = load("", "loss_flow"), *ct = load("", "loss_ct");
    near((double)each[0] + (double)each[1] + (double)each[2], (double)*flow, 1e-6, "the flow loss");
    near((double)each[3], (double)*ct, 1e-6, "the consistency loss");
    gradients(&p->params, mf_plan_grads(plan));
    adam_step(p, plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 6, .fetch = &fetch, .n_fetches = 1});
    mf_plan_free(plan);
    mf_graph_free(g);
    free(flow), free(ct);
}

/* ---- sizes ---- */

static size_t count(const struct mf_policy_spec *s)
{
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_graph *g = mf_graph_new(&ps);
    struct mf_net_spec net = s->net;
    net.obs = s->obs, net.n_obs_steps = s->n_obs_steps, net.horizon = s->horizon;
    net.O = s->n_obs_steps * s->obs.dim, net.D = s->horizon * s->action_dim;
    must(net.net->check(&net, &err), &err);
    struct mf_share obs = mf_net_features(g, &net, mf_input(g, 1, net.O), false);
    struct mf_share time = net.net->time(g, &net, mf_shared(g, 1, 1), mf_shared(g, 1, 1));
    net.net->encode(g, &net, &obs);
    net.net->velocity(g, &net, &obs, &time, mf_input(g, 1, net.D));
    size_t n = mf_params_count(&ps, MF_GROUP_POLICY) + mf_params_count(&ps, MF_GROUP_ENCODER);
    mf_graph_free(g);
    mf_params_release(&ps);
    return n;
}

static void counts(void)
{
    struct mf_policy_spec s = official();
    s.obs = (struct mf_layout){0};
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "point_cloud", .dim = {1024, 6}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "agent_pos", .dim = {9}});
    s.net.layers = 12, s.net.heads = 8, s.net.width = 768, s.net.time_dim = 128, s.net.encoder_dim = 128;
    ok(count(&s) == 181840906, "12 layers of 768: 181,840,906 parameters");
    s.net.qkv_bias = s.net.qk_norm = false;
    ok(count(&s) == 181808650, "without biases and norms of the cross-attention: 181,808,650");
}

static void refused(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = official();
    s.net.heads = 5;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "%s", err.text);
    s = official();
    s.obs.n = 1;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "%s", err.text);
    s = official();
    s.obs = (struct mf_layout){0};
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "point_cloud", .dim = {N, 4}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "agent_pos", .dim = {S}});
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "%s", err.text);
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "camera", .dim = {8, 8, 3}, .u8 = true});
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "%s", err.text);
}

int main(void)
{
    static float obs[B * O];
    const char *const devices[] = {"ref", device_under_test()};
    struct mf_err err;
    must(mf_safetensors_open(&file, "tests/fixtures/maniflow.safetensors", &err), &err);
    observations(obs);
    for (int i = 0; i < 2; i++) {
        must(mf_engine_open(&engine, devices[i], 2, MF_FP32, &err), &err);
        printf("# %s\n", devices[i]);
        struct mf_policy p = loaded();
        ok(has_all(&p.params) == 0, "its parameters are the checkpoint's, by name");
        forward(&p, obs);
        sampling(&p, obs);
        learning(&p, obs);
        mf_policy_release(&p);
        mf_engine_close(engine);
    }
    counts();
    refused();
    mf_safetensors_close(&file);
    return done();
}
