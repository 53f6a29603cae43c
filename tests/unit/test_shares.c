/* Observations that ranks share out: updates and metrics with the bits of one process. */
#include "rl/health.h"

#include "ppo_lab.h"
#include "rank_lab.h"

enum { SLICES = 3 };

struct result {
    const char *name;
    double proximal;
    bool recompute;
    int warmup;
    float *weights;
    size_t bytes;
    struct mf_ppo_stats stats;
    struct mf_health health;
};

static int set(struct mf_frame *f, const char *name, const struct mf_array *a, const size_t *dim, size_t first,
               struct mf_err *why)
{
    const size_t skip = a->bytes / (a->dim[0] * a->dim[1]) * first;
    void *to, *all = mf_xcalloc(a->bytes, 1);
    memcpy(all, a->data, a->bytes);
    int rc = mf_frame_add(f, name, a->dtype, a->rank, dim, &to, why);
    if (rc == 0)
        memcpy(to, (char *)all + skip, mf_frame_find(f, name)->bytes);
    free(all);
    return rc;
}

/* Share k of n. */
static int cut(struct mf_frame *f, int k, int n, struct mf_err *why)
{
    const struct mf_array a = *mf_frame_find(f, "obs/state");
    const size_t all = a.dim[0] * a.dim[1], first = mf_share_first(all, k, n);
    mf_frame_set_share(f, k, n);
    return set(f, "obs/state", &a, (size_t[]){1, mf_share_first(all, k + 1, n) - first, a.dim[2], a.dim[3]}, first,
               why);
}

/* The sampler made `r` by the same policy in each rank. The last slice is whole. */
static int update(struct mf_ranks *ranks, const struct round *r, struct mf_engine *e, struct mf_policy *p,
                  struct result *to, struct mf_err *why)
{
    struct mf_ppo_opts o = defaults;
    struct mf_rows rows = {0};
    struct mf_ppo *q;
    const double noise[SLICES] = {.2, .2, .2};
    o.proximal = to->proximal;
    o.recompute_logprobs = to->recompute;
    o.critic_warmup_steps = to->warmup;
    int rc = mf_ppo_new(&q, e, p, &o, why);
    for (int i = 0; rc == 0 && ranks && i < SLICES - 1; i++)
        rc = cut(r->slice[i], mf_ranks_me(ranks), mf_ranks_count(ranks), why);
    if (rc || (rc = mf_rows_gather(&rows, p, 0, noise, r->slice, SLICES, why)))
        return rc;
    rows.lagged = true;
    for (size_t i = 0; i < rows.n * (size_t)rows.E; i++)
        rows.old[i] -= .3f * (float)sin((double)(7 * i));
    rc = mf_ppo_update(q, &rows, &to->stats, why);
    rc = rc ? rc : mf_health_of(&to->health, &rows, p, to->stats.entropy, ranks, why);
    mf_rows_release(&rows);
    mf_ppo_free(q);
    return rc;
}

static int learn(struct mf_ranks *ranks, struct result *to, struct mf_err *why)
{
    const struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, true);
    struct mf_policy p;
    struct mf_engine *e;
    int rc;
    if ((rc = mf_engine_open(&e, device_under_test(), 1, MF_FP32, why)) || (rc = mf_policy_init(&p, &spec, why)))
        return rc;
    mf_policy_fresh(&p, 3);
    mf_policy_set_noise(&p, .1, .2);
    const struct round r = sample_round(&p, e, SLICES, true, NAN);
    if ((rc = mf_engine_divide(e, 0, ranks, why)) || (rc = update(ranks, &r, e, &p, to, why)))
        return rc;
    to->bytes = p.params.size * sizeof(float);
    to->weights = mf_xcalloc(to->bytes, 1);
    memcpy(to->weights, p.params.value, to->bytes);
    for (int i = 0; i < SLICES; i++)
        mf_frame_free(r.slice[i]);
    mf_policy_release(&p);
    mf_engine_close(e);
    return 0;
}

static int learn_together(struct rank *r)
{
    const struct result *alone = r->arg;
    struct result mine = *alone;
    int rc = learn(r->ranks, &mine, &r->err);
    if (rc == 0) {
        rc = memcmp(mine.weights, alone->weights, mine.bytes) ||
             memcmp(&mine.stats, &alone->stats, sizeof mine.stats) ||
             memcmp(&mine.health, &alone->health, sizeof mine.health);
        free(mine.weights);
    }
    return rc;
}

int main(void)
{
    struct result alone[] = {{.name = "plain PPO"},
                             {.name = "a proximal policy", .proximal = .5},
                             {.name = "rows that are scored anew", .recompute = true},
                             {.name = "a critic that warms up", .warmup = 3}};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        const int rc = learn(NULL, &alone[i], &err);
        ok(rc == 0 && alone[i].health.obs_outside > 0, "one process learns: %s", rc ? err.text : alone[i].name);
        for (int n = 2; n <= MOST; n++)
            ok(together(n, 10, learn_together, &alone[i]) == 0, "%d ranks, as it does: %s", n, alone[i].name);
        free(alone[i].weights);
    }
    return done();
}
