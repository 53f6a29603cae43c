/* Policies with a ViT and a SpatialEmb (policy.encoder=vit): values and gradients against PyTorch
 * (tests/reference/vision.py), ratios of 1 with pictures, parameter counts of the published sizes, refusals. */
#include "device_under_test.h"
#include "policies.h"
#include "flow/chain.h"
#include "flow/grid.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "nn/encoder.h"

enum { K = 4, MOST = 16 }; /* denoising steps; samples of a case at most */

static const double low = .08, high = .14;
static struct mf_engine *engine;
static struct fixture fixture;

static float *wanted(const char *name, const char *what, size_t *n)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, what);
    float *v = fixture_find(&fixture, key, n);
    if (!v)
        printf("Bail out! no %s\n", key), exit(1);
    return v;
}

/* Of `cameras` pictures and S states. */
static struct mf_policy_spec vit_spec(const char *net, int height, int width, int cameras, int S)
{
    struct mf_policy_spec s = small_spec(net);
    struct mf_err err;
    must(mf_encoder_find(&s.net.encoder, "vit", &err), &err);
    s.obs = (struct mf_layout){0};
    for (int i = 0; i < cameras; i++) {
        struct mf_obs picture = {.dim = {height, width, 3}, .u8 = true};
        snprintf(picture.name, sizeof picture.name, "camera%d_image", i);
        mf_layout_add(&s.obs, &picture);
    }
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "state", .dim = {S}});
    s.learned_noise = true;
    s.net.n_cond = 0;
    s.net.critic_encoder = MF_CRITIC_OWN;
    s.net.vit_width = 8, s.net.vit_heads = 2, s.net.vit_layers = 1, s.net.spatial_emb = 6;
    return s;
}

/* A case of tests/reference/vision.py. */
static struct mf_policy_spec spec_of(const char *name)
{
    enum { SHORTCUT, ROWS, COLUMNS, CAMERAS, STEPS, SEEN, STATE, E, HEADS, LAYERS, EMB, CRITIC_EMB, MISH };
    enum { HORIZON = MISH + 1, ACTION, TIME, HIDDEN, NOISE, CRITIC, FIXED };
    size_t n;
    float *of = wanted(name, "sizes", &n);
    int v[FIXED + MF_DIMS_MAX];
    for (size_t i = 0; i < n && i < FIXED + MF_DIMS_MAX; i++)
        v[i] = (int)of[i];
    free(of);
    struct mf_policy_spec s =
        vit_spec(v[SHORTCUT] ? "shortcut_mlp" : "reflow_mlp", v[ROWS], v[COLUMNS], v[CAMERAS], v[STATE]);
    s.n_obs_steps = v[STEPS];
    s.horizon = v[HORIZON], s.action_dim = v[ACTION], s.n_action_steps = 2, s.K = K;
    for (int i = 0; i < 3; i++)
        s.net.hidden[i] = v[HIDDEN], s.critic[i] = v[CRITIC];
    s.net.act = v[MISH] ? MF_ACT_MISH : MF_ACT_RELU;
    s.net.time_dim = v[TIME];
    s.noise[0] = s.noise[1] = v[NOISE];
    s.net.img_steps = v[SEEN] == v[STEPS] ? 0 : v[SEEN];
    s.net.vit_width = v[E], s.net.vit_heads = v[HEADS], s.net.vit_layers = v[LAYERS];
    s.net.spatial_emb = v[EMB], s.net.critic_emb = v[CRITIC_EMB];
    s.net.n_state = (int)n - FIXED;
    for (int i = 0; i < s.net.n_state; i++)
        s.net.state[i] = v[FIXED + i];
    return s;
}

static void load(const char *name, enum mf_critic_encoder critic, struct mf_policy *p)
{
    struct mf_err err;
    struct mf_policy_spec s = spec_of(name);
    char key[64];
    s.net.critic_encoder = critic;
    must(mf_policy_init(p, &s, &err), &err);
    mf_policy_fresh(p, 1);
    snprintf(key, sizeof key, "%s.param", name);
    load_params(&fixture, key, &p->params, p->params.value);
    mf_policy_set_noise(p, low, high);
    mf_params_touch(&p->params);
}

/* ---- values and gradients ---- */

enum loss { FLOW, VALUE, NOISE, LOSSES };
static const char *const loss_name[] = {"flow", "value", "noise"};

struct net { /* inputs of the graph, and what it computes of a sample */
    struct mf_val obs, x, t, d, target, returns, weight, one, coef, bounds;
    struct mf_val code, velocity, std, value;
};

static void build(struct mf_graph *g, const struct mf_policy *p, struct net *n)
{
    const struct mf_net_spec *s = &p->spec.net;
    const int D = s->D;
    *n = (struct net){.obs = mf_input(g, 1, s->O),
                      .x = mf_input(g, 1, D),
                      .t = mf_input(g, 1, 1),
                      .d = mf_input(g, 1, 1),
                      .target = mf_input(g, 1, D),
                      .returns = mf_input(g, 1, 1),
                      .weight = mf_input(g, 1, D),
                      .one = mf_input(g, 1, 1),
                      .coef = mf_input(g, 1, 3),
                      .bounds = mf_shared(g, 1, 2)};
    struct mf_share obs = mf_net_features(g, s, n->obs, false);
    struct mf_share time = s->net->time(g, s, n->t, s->net->step_size ? n->d : MF_NONE);
    s->net->encode(g, s, &obs);
    n->code = obs.features[0];
    n->velocity = s->net->velocity(g, s, &obs, &time, n->x);
    n->std = mf_noise_std(g, mf_noise_net(g, MF_NOISE_NET, p->spec.n_noise, p->spec.noise, D, MF_NONE, obs.embed),
                          n->bounds);
    n->value = mf_net_value(g, s, p->spec.n_critic, p->spec.critic, &obs);
}

/* The sum over samples. The log-probability of the mean is -log std - log(2 pi)/2; its products with the weights are
 * beside the target in the sum, which has no gradient. */
static void add_loss(struct mf_graph *g, const struct mf_policy *p, const struct net *n, enum loss loss, int B)
{
    const int A = p->spec.action_dim, H = p->spec.horizon;
    if (loss == FLOW)
        mf_loss(g, mf_mse(g, n->velocity, n->target, n->one), 1 / (float)B);
    if (loss == VALUE)
        mf_loss(g, mf_mse(g, n->value, n->returns, n->one), 1 / (float)B);
    if (loss != NOISE)
        return;
    struct mf_val at_mean = mf_flow_logprob(g, n->target, n->target, n->std, n->coef);
    struct mf_val all = mf_gate(g, n->target, at_mean, n->weight, 0);
    mf_loss(g, mf_reduce(g, all, MF_NONE, MF_REDUCE_ALL, A, H, 0, 1), -1 / (float)(B * H * A));
}

static void as_torch(const char *name, const char *what, const float *got)
{
    size_t n;
    float *want = wanted(name, what, &n);
    double far = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        far = worse(far, fabs((double)got[i] - (double)want[i]));
        most = fmax(most, fabs((double)want[i]));
    }
    ok(far < 1e-5 * most, "%s: %s, relative error %.1e", name, what, far / most);
    free(want);
}

static void run(const char *name, struct mf_policy *p, enum loss loss, int least)
{
    static const float ones[MOST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, coef[3] = {0, 0, 1};
    const float bounds[2] = {mf_policy_logvar(low), mf_policy_logvar(high)};
    const size_t D = (size_t)p->spec.net.D, O = (size_t)p->spec.net.O;
    struct mf_err err;
    struct mf_plan *plan;
    struct net n;
    struct mf_graph *g = mf_graph_new(&p->params);
    size_t B;
    float *t = wanted(name, "t", &B), *obs = wanted(name, "obs", NULL), *x = wanted(name, "x", NULL),
          *d = wanted(name, "d", NULL), *target = wanted(name, "target", NULL),
          *returns = wanted(name, "returns", NULL), *weight = wanted(name, "noise_weight", NULL);
    build(g, p, &n);
    add_loss(g, p, &n, loss, (int)B);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_plan_set(plan, n.bounds, bounds);
    const int wide = p->spec.net.spatial_emb * mf_layout_pictures(&p->spec.obs);
    float *code = calloc(B, sizeof *code * (size_t)wide), *v = calloc(B, sizeof *v * D),
          *std = calloc(B, sizeof *std * D), value[MOST];
    struct mf_feed feed[] = {{n.obs, obs, O, false},
                             {n.x, x, D, false},
                             {n.t, t, 1, false},
                             {n.target, target, D, false},
                             {n.returns, returns, 1, false},
                             {n.weight, weight, D, false},
                             {n.one, ones, 1, false},
                             {n.coef, coef, 0, false},
                             {n.d, d, 1, false}};
    struct mf_fetch fetch[] = {{n.code, code, (size_t)wide}, {n.velocity, v, D}, {n.std, std, D}, {n.value, value, 1}};
    const struct mf_batch batch = {.n = B, .feed = feed, .n_feeds = 9, .fetch = fetch, .n_fetches = 4};
    must(mf_plan_run(plan, &batch, &err), &err);
    if (loss == FLOW) {
        as_torch(name, "code", code);
        as_torch(name, "velocity", v);
        as_torch(name, "noise_std", std);
        as_torch(name, "value", value);
    }
    char key[64];
    int found;
    snprintf(key, sizeof key, "%s.%s.grad", name, loss_name[loss]);
    const double error = grads_error(&fixture, key, &p->params, mf_plan_grads(plan), &found);
    ok(error < 2e-5 && found >= least, "%s: gradients of %d tensors by the %s loss, relative error %.1e", name, found,
       loss_name[loss], error);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(t), free(obs), free(x), free(d), free(target), free(returns), free(weight), free(code), free(v), free(std);
}

static void against_torch(const char *name)
{
    struct mf_policy p;
    load(name, MF_CRITIC_OWN, &p);
    for (enum loss loss = FLOW; loss < LOSSES; loss++)
        run(name, &p, loss, loss == NOISE ? 28 : 29);
    mf_policy_release(&p);
}

/* ---- ratios ---- */

enum { N = 3 };

struct scored {
    float logp[N], entropy[N], value[N];
};

static struct scored scored_of(struct mf_policy *p, const float *obs, const float *chains)
{
    struct mf_err err;
    struct mf_plan *plan;
    struct mf_score score;
    struct scored to;
    struct mf_graph *g = mf_graph_new(&p->params);
    const size_t D = (size_t)p->spec.net.D, O = (size_t)p->spec.net.O;
    float coef[3 * K];
    mf_score_build(g, p, &score);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    mf_score_set(plan, &score, p);
    for (int k = 0; k < K; k++)
        mf_flow_coef(&p->spec, k, p->noise_high, true, coef + 3 * k);
    struct mf_feed feed[] = {
        {score.obs, obs, O, false}, {score.chain, chains, (K + 1) * D, false}, {score.coef, coef, 0, false}};
    struct mf_fetch fetch[] = {
        {score.logprobs, to.logp, 1}, {score.entropy, to.entropy, 1}, {score.value, to.value, 1}};
    const struct mf_batch batch = {.n = N, .feed = feed, .n_feeds = 3, .fetch = fetch, .n_fetches = 3};
    must(mf_plan_run(plan, &batch, &err), &err);
    mf_plan_free(plan);
    mf_graph_free(g);
    return to;
}

/* One row of standard deviations for all K steps counts K times. */
static void entropy_as_torch(const char *name, size_t D, const float *entropy)
{
    float *std = wanted(name, "noise_std", NULL);
    const double unit = .5 * (log(2 * M_PI) + 1);
    double far = 0;
    for (size_t i = 0; i < N; i++) {
        double sum = (double)D * unit; /* of the initial noise */
        for (size_t j = 0; j < D; j++)
            sum += K * (unit + log((double)std[i * D + j]));
        far = worse(far, fabs((double)entropy[i] - sum / (double)((K + 1) * D)));
    }
    ok(far < 1e-5, "%s: entropy of all K steps, within %.1e", name, far);
    free(std);
}

/* The rollout of a frozen encoder carries the code in the place of the pictures. */
static void scored_as_encoded(const char *name, struct mf_policy *p, const float *obs, const float *code,
                              const float *chains, const struct scored *want)
{
    const struct mf_net_spec whole = p->spec.net;
    const size_t wide = (size_t)(whole.spatial_emb * mf_layout_pictures(&whole.obs)),
                 S = (size_t)whole.obs.key[whole.obs.n - 1].dim[0], O = (size_t)whole.O;
    p->spec.net = mf_net_encoded(&whole);
    if (!ok(p->spec.net.encoded == (int)wide, "%s: a code of %zu numbers replaces the pictures", name, wide))
        exit(1);
    float *rows = calloc(N * (wide + S), sizeof *rows);
    for (size_t i = 0; i < N; i++) {
        memcpy(rows + i * (wide + S), code + i * wide, wide * sizeof *rows);
        memcpy(rows + i * (wide + S) + wide, obs + (i + 1) * O - S, S * sizeof *rows);
    }
    struct scored got = scored_of(p, rows, chains);
    ok(!memcmp(&got, want, sizeof got), "%s: what the code scores is what the pictures score, to the bit", name);
    p->spec.net = whole;
    free(rows);
}

static void ratios(const char *name, enum mf_critic_encoder critic)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_sampler *m;
    load(name, critic, &p);
    ok(mf_net_encoded(&p.spec.net).encoded == 0 || critic == MF_CRITIC_SHARED,
       "%s: a critic that encodes on its own needs the pictures", name);
    const size_t D = (size_t)p.spec.net.D;
    float *obs = wanted(name, "obs", NULL), *noise = wanted(name, "x", NULL), *eps = calloc(N * K * D, sizeof *eps),
          *chains = calloc(N * (K + 1) * D, sizeof *chains), *actions = calloc(N * D, sizeof *actions),
          *code = calloc(N * 64, sizeof *code), logp[N], values[N];
    for (size_t i = 0; i < N * K * D; i++)
        eps[i] = (float)sin((double)i);
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    struct mf_sample x = {.obs = obs,
                          .noise = noise,
                          .eps = eps,
                          .actions = actions,
                          .chains = chains,
                          .logprobs = logp,
                          .values = values,
                          .encoding = code};
    must(mf_sampler_run(m, N, &x, &err), &err);
    struct scored s = scored_of(&p, obs, chains);
    ok(!memcmp(s.logp, logp, sizeof logp) && !memcmp(s.value, values, sizeof values),
       "%s: log-probabilities and values are those of sampling, to the bit", name);
    entropy_as_torch(name, D, s.entropy);
    if (critic == MF_CRITIC_SHARED)
        scored_as_encoded(name, &p, obs, code, chains, &s);
    mf_sampler_free(m);
    mf_policy_release(&p);
    free(obs), free(noise), free(eps), free(chains), free(actions), free(code);
}

/* The code stands before the states, whatever the order of the keys. */
static void state_first(void)
{
    struct mf_err err;
    struct mf_policy p, q;
    load("reflow", MF_CRITIC_OWN, &p);
    struct mf_policy_spec s = p.spec;
    s.obs = (struct mf_layout){0};
    mf_layout_add(&s.obs, &p.spec.obs.key[1]);
    mf_layout_add(&s.obs, &p.spec.obs.key[0]);
    must(mf_policy_init(&q, &s, &err), &err);
    mf_policy_set_noise(&q, low, high);
    for (int i = 0; i < q.params.n; i++) {
        const struct mf_param *to = &q.params.p[i], *from = &p.params.p[mf_param_find(&p.params, to->name)];
        memcpy(q.params.value + to->at, p.params.value + from->at, sizeof(float) * (size_t)to->rows * (size_t)to->cols);
    }
    mf_params_touch(&q.params);
    const size_t O = (size_t)p.spec.net.O, S = (size_t)p.spec.obs.key[1].dim[0], D = (size_t)p.spec.net.D;
    float *obs = wanted("reflow", "obs", NULL), *moved = calloc(N * O, sizeof *moved),
          *chains = calloc(N * (K + 1) * D, sizeof *chains);
    for (size_t i = 0; i < N; i++) {
        memcpy(moved + i * O, obs + (i + 1) * O - S, S * sizeof *obs);
        memcpy(moved + i * O + S, obs + i * O, (O - S) * sizeof *obs);
    }
    struct scored a = scored_of(&p, obs, chains), b = scored_of(&q, moved, chains);
    ok(!memcmp(&a, &b, sizeof a), "the order of policy.obs_keys is not that of the network's inputs");
    mf_policy_release(&p);
    mf_policy_release(&q);
    free(obs), free(moved), free(chains);
}

/* ---- sizes ---- */

/* ReinFlow's policies for Can and Lift, and for Square, as tests/reference/vision.py --count has them. */
static void counts(void)
{
    static const struct {
        int hidden, noise;
        size_t policy, noise_net, critic;
    } rows[] = {{512, 256, 1064956, 174108, 586881}, {768, 384, 1778684, 359452, 586881}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mf_err err;
        struct mf_policy p;
        struct mf_policy_spec s = vit_spec("reflow_mlp", 96, 96, 1, 9);
        s.horizon = s.n_action_steps = 4, s.action_offset = 0, s.action_dim = 7;
        s.net.time_dim = 32;
        s.net.vit_width = s.net.spatial_emb = 128, s.net.vit_heads = 4;
        s.n_noise = 3;
        for (int k = 0; k < 3; k++)
            s.net.hidden[k] = rows[i].hidden, s.critic[k] = 256, s.noise[k] = rows[i].noise;
        must(mf_policy_outline(&p, &s, &err), &err);
        size_t policy = mf_params_count(&p.params, MF_GROUP_POLICY) + mf_params_count(&p.params, MF_GROUP_ENCODER),
               noise = mf_params_count(&p.params, MF_GROUP_NOISE), critic = mf_params_count(&p.params, MF_GROUP_CRITIC);
        ok(policy == rows[i].policy && noise == rows[i].noise_net && critic == rows[i].critic,
           "%dx3: %zu parameters, %zu of the noise network, %zu of the critic", rows[i].hidden, policy, noise, critic);
        mf_policy_release(&p);
    }
}

static void refused(void)
{
    refuses(vit_spec("reflow_mlp", 84, 96, 1, 3), "multiples of 8 and at least 16: camera0_image has 84 x 96 pixels");
    refuses(vit_spec("reflow_mlp", 96, 84, 1, 3), "has 96 x 84 pixels");
    refuses(vit_spec("reflow_mlp", 8, 16, 1, 3), "has 8 x 16 pixels");
    refuses(vit_spec("reflow_mlp", 16, 8, 1, 3), "has 16 x 8 pixels");
    struct mf_policy_spec s = vit_spec("reflow_mlp", 32, 32, 2, 3);
    s.net.vit_heads = 3;
    refuses(s, "policy.encoder_width=8 does not divide into policy.encoder_heads=3");
    s = vit_spec("reflow_mlp", 32, 32, 2, 3);
    s.net.crop = 20;
    refuses(s, "has 20 x 20 pixels");
    s = vit_spec("reflow_mlp", 32, 32, 2, 3);
    s.obs.key[1].dim[1] = 24;
    refuses(s, "needs pictures of one size");
    s = vit_spec("reflow_mlp", 32, 32, 2, 3);
    s.obs.key[1].dim[2] = 1;
    refuses(s, "camera0_image has 3 channels, and camera1_image 1");
    s = vit_spec("reflow_mlp", 32, 32, 1, 3);
    s.net.img_steps = 2;
    refuses(s, "policy.img_cond_steps=2");
    s = vit_spec("shortcut_mlp", 32, 32, 1, 3);
    s.net.n_cond = 1, s.net.cond[0] = 8;
    refuses(s, "leave policy.cond_hidden at []");
}

int main(void)
{
    static const char *const cases[] = {"reflow", "steps", "shortcut", "cameras"};
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/vision_vit.bin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        against_torch(cases[i]);
        ratios(cases[i], MF_CRITIC_OWN);
    }
    ratios("reflow", MF_CRITIC_SHARED);
    ratios("cameras", MF_CRITIC_SHARED);
    state_first();
    counts();
    refused();
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
