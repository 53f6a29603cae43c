#include "demos/outcomes.h"

#include <stdlib.h>

#include "base/mem.h"
#include "demos/demo_cache.h"

/* From the ends, of which `success` has the time limits: 1 for each step of an episode that succeeded. */
static void judge(const float *rewards, const uint8_t *end, size_t n, uint8_t *success)
{
    uint8_t won = 0;
    for (size_t t = n; t-- > 0;) {
        if (end[t] != MF_DEMO_GOES_ON)
            won = rewards[t] > 0 && !success[t];
        success[t] = won;
    }
}

/* flags: room for the steps of a demonstration. limit: where a time limit ends an episode. */
static int read_ends(struct mf_demos *d, const struct mf_demo *demo, float *flags, uint8_t *end, uint8_t *limit,
                     struct mf_err *err)
{
    const int has_terminated = mf_demo_cache_read(d->cache, demo->name, "terminated", demo->n, flags, err);
    for (size_t t = 0; t < demo->n; t++)
        end[t] = has_terminated > 0 && flags[t] != 0 ? MF_DEMO_TERMINATED : MF_DEMO_GOES_ON;
    const int has_dones =
        has_terminated < 0 ? has_terminated : mf_demo_cache_read(d->cache, demo->name, "dones", demo->n, flags, err);
    for (size_t t = 0; has_dones > 0 && t < demo->n; t++)
        if (flags[t] != 0 && end[t] == MF_DEMO_GOES_ON)
            end[t] = (limit[t] = has_terminated > 0) ? MF_DEMO_CUT : MF_DEMO_TERMINATED;
    if (end[demo->n - 1] == MF_DEMO_GOES_ON)
        end[demo->n - 1] = MF_DEMO_CUT;
    return has_dones < 0 ? has_dones : 0;
}

static int read_demo(struct mf_outcomes *o, struct mf_demos *d, const struct mf_demo *demo, size_t at, float *flags,
                     struct mf_err *err)
{
    const int rc = mf_demo_cache_read(d->cache, demo->name, "rewards", demo->n, o->rewards + at, err);
    if (rc == 0)
        return mf_err_set(err, MF_EFORMAT,
                          "'%s' has no /data/%s/rewards: reinforcement learning needs the reward of every step of the "
                          "demonstrations; plain cloning does not (clone.weight=none)",
                          mf_demo_cache_path(d->cache), demo->name);
    if (rc < 0 || read_ends(d, demo, flags, o->end + at, o->success + at, err))
        return err->code;
    judge(o->rewards + at, o->end + at, demo->n, o->success + at);
    return 0;
}

int mf_outcomes_read(struct mf_outcomes *o, struct mf_demos *d, struct mf_err *err)
{
    float *flags = NULL;
    *o = (struct mf_outcomes){.end = NULL};
    int rc = mf_alloc((void **)&o->rewards, d->total * sizeof *o->rewards, "rewards", err);
    rc = rc ? rc : mf_alloc((void **)&o->end, d->total, "ends of episodes", err);
    rc = rc ? rc : mf_alloc((void **)&o->success, d->total, "successes", err);
    rc = rc ? rc : mf_alloc((void **)&flags, d->total * sizeof *flags, "ends of episodes", err);
    for (size_t i = 0, at = 0; rc == 0 && i < d->n_demos; at += d->demo[i++].n)
        rc = read_demo(o, d, &d->demo[i], at, flags, err);
    free(flags);
    if (rc)
        mf_outcomes_release(o);
    return rc;
}

void mf_outcomes_release(struct mf_outcomes *o)
{
    free(o->rewards);
    free(o->end);
    free(o->success);
    *o = (struct mf_outcomes){.end = NULL};
}
