#include "rl/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const struct mf_bind mf_group_binds[] = {{"advantage.group_reward", offsetof(struct mf_group_opts, reward)},
                                         {"advantage.baseline", offsetof(struct mf_group_opts, baseline)},
                                         {0}};

struct episode {
    int32_t group;
    bool ended;
    size_t env, first, end; /* decisions [first, end) of environment env */
    double score;
    float advantage;
};

static bool live(const struct mf_rollout *r, size_t i)
{
    return (!r->valid || r->valid[i]) && (!r->loss_mask || r->loss_mask[i]);
}

static double reward(const struct mf_rollout *r, size_t i)
{
    const size_t ran = r->n_exec ? (size_t)r->n_exec[i] : r->C;
    double sum = 0;
    for (size_t c = 0; c < ran; c++)
        sum += (double)r->rewards[i * r->C + c];
    return sum;
}

/* ---- episodes of a rollout ---- */

/* The episode of environment env that begins at decision `first`, which is live. */
static struct episode episode_at(const struct mf_group_opts *o, const struct mf_rollout *r, size_t env, size_t first)
{
    struct episode e = {.group = r->group[first * r->N + env], .env = env, .first = first, .end = first};
    while (!e.ended && e.end < r->T) {
        const size_t i = e.end * r->N + env;
        if (live(r, i) && r->group[i] != e.group)
            break;
        e.end++;
        if (!live(r, i))
            continue;
        e.ended = r->terminated[i] || r->truncated[i];
        if (o->reward == MF_GROUP_RETURN)
            e.score += reward(r, i);
        else
            e.score = r->success[i] != 0;
    }
    return e;
}

static size_t split(const struct mf_group_opts *o, const struct mf_rollout *r, struct episode *to)
{
    size_t n = 0;
    for (size_t env = 0; env < r->N; env++)
        for (size_t t = 0; t < r->T;) {
            if (!live(r, t * r->N + env)) {
                t++;
                continue;
            }
            to[n] = episode_at(o, r, env, t);
            t = to[n++].end;
        }
    return n;
}

static int by_group_env_and_step(const void *a, const void *b)
{
    const struct episode *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->env != y->env)
        return x->env < y->env ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* ---- one group ---- */

static bool whole(const struct episode *e, size_t n, size_t size)
{
    bool all = n >= size;
    for (size_t i = 0; i < n; i++)
        all &= e[i].ended;
    return all;
}

/* Exactly 0 for equal scores, whose mean may be rounded. */
static bool compare(const struct mf_group_opts *o, struct episode *e, size_t n)
{
    const double N = (double)n;
    double mean = 0, squares = 0;
    bool equal = true;
    for (size_t i = 0; i < n; i++) {
        equal &= e[i].score == e[0].score;
        mean += e[i].score / N;
        e[i].advantage = 0;
    }
    for (size_t i = 0; i < n; i++)
        squares += (e[i].score - mean) * (e[i].score - mean);
    const double scale =
        o->baseline == MF_BASELINE_GROUP ? 1 / (sqrt(squares / (N - 1)) + 1e-6) : N / (N - 1); /* s - mean of n - 1 */
    for (size_t i = 0; !equal && i < n; i++)
        e[i].advantage = (float)((e[i].score - mean) * scale);
    return !equal;
}

static void write_episode(const struct mf_rollout *r, const struct episode *e, bool counts, float *advantages,
                          float *returns, uint8_t *mask, struct mf_group_counts *c)
{
    for (size_t t = e->first; t < e->end; t++) {
        const size_t i = t * r->N + e->env;
        if (!live(r, i))
            continue;
        c->decisions++;
        c->masked += !counts;
        mask[i] = counts;
        advantages[i] = counts ? e->advantage : 0;
        returns[i] = counts ? (float)e->score : 0;
    }
}

int mf_group_advantage(const struct mf_group_opts *o, const struct mf_rollout *r, size_t size, float *advantages,
                       float *returns, uint8_t *mask, struct mf_group_counts *counts, struct mf_err *err)
{
    const size_t TN = r->T * r->N;
    struct episode *e;
    int rc = mf_alloc((void **)&e, TN * sizeof *e, "the episodes of a rollout", err);
    if (rc)
        return rc;
    memset(advantages, 0, TN * sizeof *advantages);
    memset(returns, 0, TN * sizeof *returns);
    for (size_t i = 0; i < TN; i++)
        mask[i] = r->loss_mask ? r->loss_mask[i] : 1;
    const size_t n = split(o, r, e);
    qsort(e, n, sizeof *e, by_group_env_and_step);
    for (size_t i = 0, members; i < n; i += members) {
        for (members = 1; i + members < n && e[i + members].group == e[i].group;)
            members++;
        const bool is_whole = whole(e + i, members, size), differ = compare(o, e + i, members);
        counts->groups += is_whole;
        counts->cut += !is_whole;
        counts->single += is_whole && members == 1;
        counts->equal += is_whole && members > 1 && !differ;
        for (size_t k = i; k < i + members; k++)
            write_episode(r, &e[k], is_whole, advantages, returns, mask, counts);
    }
    free(e);
    return 0;
}

int mf_group_add(const struct mf_group_opts *o, struct mf_frame *f, struct mf_group_counts *counts, struct mf_err *err)
{
    const unsigned need = MF_NEED_GROUPS | (o->reward == MF_GROUP_SUCCESS ? MF_NEED_SUCCESS : 0);
    struct mf_rollout r;
    int64_t size = 1;
    void *adv, *ret, *mask;
    int rc = mf_rollout_bind(&r, f, need, err);
    if (rc || (mf_frame_has(f, "group_size") && (rc = mf_frame_get_int(f, "group_size", &size, err))))
        return rc;
    if (size < 1 || size > INT32_MAX)
        return mf_err_set(err, MF_EFORMAT, "the rollout of iteration %lld: group_size is %lld, not positive",
                          (long long)r.iter, (long long)size);
    const size_t dim[] = {r.T, r.N};
    if ((rc = mf_alloc(&mask, r.T * r.N, "a mask", err)))
        return rc;
    if ((rc = mf_frame_add(f, "advantages", MF_F32, 2, dim, &adv, err)) == 0 &&
        (rc = mf_frame_add(f, "returns", MF_F32, 2, dim, &ret, err)) == 0)
        rc = mf_group_advantage(o, &r, (size_t)size, adv, ret, mask, counts, err);
    void *own;
    if (rc == 0 && (rc = mf_frame_add(f, "loss_mask", MF_U8, 2, dim, &own, err)) == 0)
        memcpy(own, mask, r.T * r.N);
    if (rc == 0 && o->baseline == MF_BASELINE_GROUP)
        mf_frame_set_bool(f, "normalized", true);
    free(mask);
    return rc;
}
