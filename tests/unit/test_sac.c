/* SAC over a flow's noise: losses and gradients against PyTorch, the temperature, and what a resume needs. */
#include "device_under_test.h"
#include "folder.h"
#include "policies.h"
#include "rl/sac_priv.h"

enum { B = 7, F = 5, D = 6, X = 4, T = 6, N = 5 };

static struct mf_engine *engine;
static struct fixture fixture;

static struct mf_policy policy_of(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.noise_method = MF_FLOW_ODE;
    s.steer = MF_STEER_SAC;
    s.steer_magnitude = 1.5f;
    s.n_critic = 0;
    s.n_steer_hidden = 2;
    s.steer_hidden[0] = 12, s.steer_hidden[1] = 7;
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 5);
    return p;
}

static struct mf_sac *sac_of(struct mf_policy *p, enum mf_sac_form form)
{
    struct mf_err err;
    struct mf_sac *s;
    const struct mf_sac_opts o = {.seed = 3,
                                  .gamma = .9,
                                  .form = form,
                                  .n_critics = 2,
                                  .critic_hidden = {2, {9, 8}},
                                  .learning_rate = 1e-2,
                                  .batch_size = 16,
                                  .updates = 1,
                                  .distill_every = 4,
                                  .distill_steps = 2,
                                  .tau = .1,
                                  .alpha = .5,
                                  .reward_shift = -1,
                                  .replay_decisions = 75};
    must(mf_sac_new(&s, engine, p, &o, &err), &err);
    return s;
}

static void as_torch(const char *name, const float *got)
{
    size_t n;
    float *want = fixture_find(&fixture, name, &n);
    double worst = 0;
    for (size_t i = 0; want && i < n; i++)
        worst = worse(worst, fabs((double)got[i] - (double)want[i]));
    ok(want && worst < 2e-5, "%s is within %.2g of PyTorch's", name, worst);
    free(want);
}

static void grads_as_torch(struct mf_sac_net *m, const char *prefix, const struct mf_params *ps, int least)
{
    int found;
    const double error = grads_error(&fixture, prefix, ps, mf_plan_grads(m->plan), &found);
    ok(found >= least && error < 2e-5, "%s: gradients of %d tensors, relative error %.2g", prefix, found, error);
}

static void losses(void)
{
    struct mf_policy p = policy_of();
    struct mf_sac *s = sac_of(&p, MF_SAC_NA);
    struct mf_err err;
    float *obs = fixture_find(&fixture, "obs", NULL), *eps = fixture_find(&fixture, "eps", NULL),
          *x = fixture_find(&fixture, "x", NULL), *y = fixture_find(&fixture, "y", NULL);
    float alpha[B], weight[B], logpi[B], least[B], t[B * D], q[B * 2], loss[B], total = 0;
    load_params(&fixture, "w", &s->agent.params, s->agent.params.value);
    load_params(&fixture, "w", &s->critics.params, s->critics.params.value);
    mf_learned_touch(&s->agent);
    mf_learned_touch(&s->critics);
    for (int i = 0; i < B; i++)
        alpha[i] = .3f / B, weight[i] = 1.0f / B;

    struct mf_sac_net *m = &s->net[MF_SAC_ACTOR];
    struct mf_feed actor[] = {
        {m->obs, obs, F, false}, {m->eps, eps, D, false}, {m->alpha, alpha, 1, false}, {m->weight, weight, 1, false}};
    struct mf_fetch of_actor[] = {{m->logpi, logpi, 1}, {m->out, least, 1}};
    must(mf_plan_run(m->plan,
                     &(struct mf_batch){.n = B, .feed = actor, .n_feeds = 4, .fetch = of_actor, .n_fetches = 2}, &err),
         &err);
    for (int i = 0; i < B; i++)
        least[i] = -least[i];
    as_torch("logpi", logpi);
    as_torch("least", least);
    grads_as_torch(m, "actor", &s->agent.params, 8);

    m = &s->net[MF_SAC_PI];
    must(mf_plan_run(m->plan,
                     &(struct mf_batch){.n = B,
                                        .feed = (struct mf_feed[]){{m->obs, obs, F, false}, {m->eps, eps, D, false}},
                                        .n_feeds = 2,
                                        .fetch = &(struct mf_fetch){m->out, t, D},
                                        .n_fetches = 1},
                     &err),
         &err);
    as_torch("squashed", t);

    m = &s->net[MF_SAC_TD];
    struct mf_feed critic[] = {
        {m->obs, obs, F, false}, {m->x, x, X, false}, {m->y, y, 2, false}, {m->weight, weight, 1, false}};
    struct mf_fetch judged[] = {{m->out, q, 2}, {m->loss, loss, 1}};
    must(mf_plan_run(m->plan, &(struct mf_batch){.n = B, .feed = critic, .n_feeds = 4, .fetch = judged, .n_fetches = 2},
                     &err),
         &err);
    for (int i = 0; i < B; i++)
        total += loss[i]; /* .5 * n is 1 */
    as_torch("q", q);
    as_torch("loss", &total);
    grads_as_torch(m, "critic", &s->critics.params, 20);
    mf_sac_free(s);
    mf_policy_release(&p);
    free(obs), free(eps), free(x), free(y);
}

/* ---- rounds ---- */

/* Observation 0 of a row is its environment, 1 its decision over all rounds. Environment 1 ends its episodes at every
 * third decision, a row of environment 2 is no transition. */
static struct mf_rows round_of(const struct mf_policy *p, int round)
{
    struct mf_err err;
    struct mf_rows r = {.n = T * N, .T = T, .N = N, .O = F, .D = D, .P = 1, .C = 2, .X = X, .judged = true};
    struct mf_rng rng = mf_rng_at(7, MF_RNG_TEST, 0, (uint32_t)round, 0);
    (void)p;
    must(mf_rows_alloc(&r, &err), &err);
    mf_rng_normal(&rng, r.obs, T * N * F);
    mf_rng_normal(&rng, r.chain, T * N * D);
    mf_rng_normal(&rng, r.action, T * N * X);
    for (size_t e = 0; e < N; e++) {
        r.seen_first[e] = 1 + (size_t)round * N + e;
        r.seen_last[e] = r.seen_first[e] + N;
    }
    for (size_t i = 0; i < r.n; i++) {
        const size_t env = i / T, t = (size_t)round * T + i % T;
        r.obs[i * F] = (float)env, r.obs[i * F + 1] = (float)t;
        r.returns[i] = .25f * (float)(i % 4);
        r.n_exec[i] = 2;
        r.end[i] = env == 1 && t % 3 == 2;
        if (env != 2 || t % 5 != 3)
            r.live[r.n_live++] = (uint32_t)i;
    }
    return r;
}

static void replay(void)
{
    enum { DRAWN = 4000 };
    static size_t at[DRAWN], next[DRAWN];
    struct mf_policy p = policy_of();
    struct mf_err err;
    struct mf_replay r;
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    int wrong = 0, ends = 0, across = 0, oldest = 1000, newest = 0;
    must(mf_replay_init(&r, &p.spec, 75, &err), &err);
    ok(!mf_replay_draw(&r, &rng, 1, at, next), "nothing is drawn from an empty buffer");
    for (int round = 0; round < 4; round++) { /* 120 rows */
        struct mf_rows rows = round_of(&p, round);
        mf_replay_add(&r, &rows, -1);
        mf_rows_release(&rows);
    }
    ok(mf_replay_draw(&r, &rng, DRAWN, at, next), "decisions are drawn");
    for (int i = 0; i < DRAWN; i++) {
        const float *a = r.obs + at[i] * F, *b = r.obs + next[i] * F;
        const int env = (int)a[0], t = (int)a[1];
        const bool end = env == 1 && t % 3 == 2;
        ends += end;
        across += t % T == T - 1 && !end;
        oldest = t < oldest ? t : oldest;
        newest = t > newest ? t : newest;
        wrong += (r.flags[at[i]] & MF_ROW_END) != (end ? MF_ROW_END : 0) || (int)b[0] != env ||
                 (!end && (int)b[1] != t + 1) || (env == 2 && (t % 5 == 3 || t % 5 == 2));
    }
    ok(wrong == 0 && ends > 0 && across > 0, "%d wrong successors; %d ends, %d follow into the next round", wrong, ends,
       across);
    ok(newest == 4 * T - 1 && oldest >= T, "the oldest are overwritten, and the newest wait unless they end");
    near((double)r.reward[0], (double)(.25f * (float)(75 % 30 % 4)) - 2, 1e-6, "the reward is shifted by control step");
    mf_replay_release(&r);
    mf_policy_release(&p);
}

/* Round 1 follows round 0 but in the environments that `other` names: their decisions at its end have no successor. */
static void follows(const char *what, unsigned other, bool saved, bool older)
{
    enum { DRAWN = 4000 };
    static size_t at[DRAWN], next[DRAWN];
    struct mf_policy p = policy_of();
    struct mf_err err;
    struct mf_replay r, again;
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    unsigned across = 0;
    const char *to = in_folder("rounds");
    must(mf_replay_init(&r, &p.spec, 75, &err), &err);
    for (int round = 0; round < 2; round++) {
        struct mf_rows rows = round_of(&p, round);
        for (int e = 0; e < N && round; e++)
            rows.seen_first[e] += other >> e & 1 ? 1000 : 0;
        mf_replay_add(&r, &rows, -1);
        must(mf_replay_save(&r, to, round, 1, &err), &err);
        mf_rows_release(&rows);
    }
    must(mf_replay_init(&again, &p.spec, 75, &err), &err);
    if (older) { /* a file that does not have these columns */
        char command[400];
        snprintf(command, sizeof command, "LC_ALL=C sed -i 's/\"begins\"/\"BEGINS\"/; s/\"ends\"/\"ENDS\"/' %s/*", to);
        must(system(command) ? MF_EIO : 0, &err);
    }
    if (saved)
        must(mf_replay_load(&again, to, 2, r.total, &err), &err);
    struct mf_replay *from = saved ? &again : &r;
    ok(mf_replay_draw(from, &rng, DRAWN, at, next), "decisions are drawn");
    for (int i = 0; i < DRAWN; i++)
        across |= next[i] != at[i] && (int)from->obs[at[i] * F + 1] == T - 1 ? 1u << (int)from->obs[at[i] * F] : 0;
    ok(across == (0x1fu & ~other & ~2u), "%s%s: environments %02x of 1d follow", what, saved ? ", resumed" : "",
       across);
    mf_replay_release(&r);
    mf_replay_release(&again);
    mf_policy_release(&p);
}

/* A damaged number is a file's fault, not that of the settings. */
static void damaged(void)
{
    struct mf_policy p = policy_of();
    struct mf_sac *s = sac_of(&p, MF_SAC_NA);
    struct mf_rows rows = round_of(&p, 0);
    struct mf_err err;
    char to[128];
    snprintf(to, sizeof to, "%s", in_folder("damaged"));
    must(mf_sac_update(s, &rows, &err), &err);
    s->replay.obs[F + 1] = 1e30f;
    must(mf_sac_save(s, to, 1, &err), &err);
    mf_sac_free(s);
    s = sac_of(&p, MF_SAC_NA);
    ok(mf_sac_load(s, to, 1, &err) == MF_EFORMAT && strstr(err.text, "/000000.safetensors: obs[1, 1] is 1e+30, beyond"),
       "a number of the replay buffer: %s", err.text);
    s->agent.adam.m[2] = NAN;
    must(mf_sac_save(s, to, 2, &err), &err);
    ok(mf_sac_load(s, to, 2, &err) == MF_EFORMAT && strstr(err.text, "safetensors: number 2 of agent"),
       "one of the state: %s", err.text);
    mf_sac_free(s);
    mf_rows_release(&rows);
    mf_policy_release(&p);
}

/* The same rounds, once in one go and once with a pause: the same bits. */
static void resumed(enum mf_sac_form form)
{
    const char *name = form == MF_SAC_NA ? "na" : "noise";
    struct mf_policy p = policy_of(), q = policy_of();
    struct mf_sac *a = sac_of(&p, form), *b = sac_of(&q, form);
    struct mf_err err;
    char to[128];
    snprintf(to, sizeof to, "%s", in_folder(name));
    for (int round = 0; round < 6; round++) {
        struct mf_rows rows = round_of(&p, round);
        must(mf_sac_update(a, &rows, &err), &err);
        if (round < 4) {
            must(mf_sac_update(b, &rows, &err), &err);
            must(mf_sac_save(b, to, round + 1, &err), &err);
        }
        if (round == 3) {
            mf_sac_free(b);
            b = sac_of(&q, form);
            must(mf_sac_load(b, to, 4, &err), &err);
        }
        if (round > 3)
            must(mf_sac_update(b, &rows, &err), &err);
        mf_rows_release(&rows);
    }
    const struct mf_sac_stats *st = mf_sac_stats(a);
    ok(st->steps > 20 && isfinite(st->critic_loss) && isfinite(st->actor_loss) && isfinite(st->distill_loss) == !form,
       "%s: %lld gradient steps", name, (long long)st->steps);
    ok(!memcmp(p.params.value, q.params.value, p.params.size * sizeof(float)) && a->log_alpha == b->log_alpha,
       "%s: a resumed run ends with the same actor", name);
    ok(fabs(a->log_alpha - log(.5)) > 1e-3, "%s: the temperature moves", name);
    mf_sac_free(a);
    mf_sac_free(b);
    mf_policy_release(&p);
    mf_policy_release(&q);
}

extern const struct mf_device mf_device_cpu;
static const float *watched;
static int puts_watched;

static int put(struct mf_dev *d, float *to, const float *host, size_t floats, struct mf_err *err)
{
    puts_watched += host == watched;
    return mf_device_cpu.put(d, to, host, floats, err);
}

/* The flow's plan and those of the policy share its weights: each version of them is sent once. */
static void sent_once(void)
{
    struct mf_device device = mf_device_cpu;
    struct mf_engine *before = engine;
    struct mf_policy p = policy_of();
    struct mf_err err;
    device.put = put;
    must(mf_engine_on(&engine, &device, "", 1, MF_FP32, &err), &err);
    struct mf_sac *s = sac_of(&p, MF_SAC_NA);
    watched = p.params.value;
    for (int round = 0; round < 3; round++) {
        struct mf_rows rows = round_of(&p, round);
        mf_policy_set_noise(&p, round, round);
        must(mf_sac_update(s, &rows, &err), &err);
        mf_rows_release(&rows);
    }
    ok(mf_sac_stats(s)->steps > 10 && puts_watched == 3, "the policy is sent %d times in 3 rounds", puts_watched);
    mf_sac_free(s);
    mf_policy_release(&p);
    mf_engine_close(engine);
    engine = before;
}

int main(void)
{
    struct mf_err err;
    if (!mkdtemp(folder))
        return 1;
    must(mf_engine_open(&engine, device_under_test(), 1, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/sac.bin");
    losses();
    replay();
    damaged();
    sent_once();
    for (int saved = 0; saved < 2; saved++) {
        follows("a collector that goes on", 0, saved, false);
        follows("one of two sources began new episodes", 0x18, saved, false);
        follows("other environments, as many", 0x1f, saved, false);
    }
    follows("a file without them", 0x1f, true, true);
    resumed(MF_SAC_NA);
    resumed(MF_SAC_NOISE);
    free(fixture.bytes);
    mf_engine_close(engine);
    char remove[160];
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    return system(remove) ? 1 : done();
}
