#include "rl/slices.h"

#include <stdio.h>
#include <stdlib.h>

#include "flow/frames.h"

/* Environments that stay in one slice. */
static int group_of(const struct mf_actor *a)
{
    return a->opts.vec.group > 1 ? a->opts.vec.group : 1;
}

struct mf_slices mf_slices_cut(const struct mf_actor *a, int64_t least, int64_t iter, const char *src)
{
    struct mf_slices s = {.actor = a, .iter = iter, .src = src};
    const int units = a->N / group_of(a);
    int fit = (int)(MF_SLICE_BYTES / ((size_t)group_of(a) * mf_columns_env_bytes(&a->columns)));
    fit = fit < 1 ? 1 : fit;
    s.of = (units + fit - 1) / fit;
    s.of = s.of < least ? (int)least : s.of;
    s.of = s.of > units ? units : s.of;
    if (a->policy)
        mf_policy_digest(a->policy, s.digest);
    if (a->encoding >= 0)
        mf_policy_encoder_digest(a->policy, s.encoder);
    return s;
}

int mf_slices_frame(const struct mf_slices *s, int k, struct mf_frame **to, struct mf_err *err)
{
    const struct mf_actor *a = s->actor;
    const int64_t G = group_of(a), units = a->N / G;
    int64_t first = k * units / s->of * G, end = (k + 1) * units / s->of * G;
    struct mf_frame *f = *to = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", s->iter);
    mf_frame_set_str(f, "src", s->src);
    mf_frame_set_ints(f, "slice", (int64_t[]){k, s->of}, 2);
    if (G > 1)
        mf_frame_set_int(f, "group_size", G);
    mf_frame_set_ints(f, "envs", (int64_t[]){a->opts.vec.first_env + first, end - first}, 2);
    if (*s->digest) {
        mf_frame_set_int(f, "policy.version", a->policy->version);
        mf_frame_set_str(f, "policy.digest", s->digest);
    }
    if (*s->encoder)
        mf_frame_set_str(f, "policy.encoder", s->encoder);
    return mf_columns_slice(&a->columns, f, (size_t)first, (size_t)(end - first), err);
}

static void put_tally(struct mf_frame *f, const char *name, const struct mf_tally *t)
{
    const double n = t->n ? (double)t->n : 1;
    const struct {
        const char *field;
        double mean;
    } row[] = {{"return", t->ret / n}, {"length", (double)t->length / n}, {"success", (double)t->success / n}};
    char path[32];
    snprintf(path, sizeof path, "%s.n", name);
    mf_frame_set_int(f, path, t->n);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(path, sizeof path, "%s.%s", name, row[i].field);
        mf_frame_set_num(f, path, row[i].mean);
    }
}

int mf_slices_round(const struct mf_slices *s, struct mf_frame **to, struct mf_err *err)
{
    const struct mf_actor *a = s->actor;
    struct mf_frame *f = *to = mf_frame_new(MF_ROUND);
    void *state;
    size_t size;
    mf_frame_set_int(f, "iter", s->iter);
    mf_frame_set_str(f, "src", s->src);
    mf_frame_set_int(f, "slices", s->of);
    put_tally(f, "episodes", &a->ended);
    if (!a->policy)
        return 0;
    put_tally(f, "counted", &a->counted);
    int rc = mf_actor_save(a, &state, &size, err);
    if (rc)
        return rc;
    mf_frame_set_bin(f, "state", state, size);
    free(state);
    return 0;
}
