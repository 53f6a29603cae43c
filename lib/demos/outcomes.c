#include "demos/outcomes.h"

#include <stdlib.h>

#include "base/mem.h"
#include "demos/demo_cache.h"

/* flags: room for the steps of a demonstration. */
static int read_ends(struct mf_demos *d, const struct mf_demo *demo, float *flags, uint8_t *end, struct mf_err *err)
{
    const int has_terminated = mf_demo_cache_read(d->cache, demo->name, "terminated", demo->n, flags, err);
    for (size_t t = 0; t < demo->n; t++)
        end[t] = has_terminated > 0 && flags[t] != 0 ? MF_DEMO_TERMINATED : MF_DEMO_GOES_ON;
    const int has_dones =
        has_terminated < 0 ? has_terminated : mf_demo_cache_read(d->cache, demo->name, "dones", demo->n, flags, err);
    for (size_t t = 0; has_dones > 0 && t < demo->n; t++)
        if (flags[t] != 0 && end[t] == MF_DEMO_GOES_ON)
            end[t] = has_terminated ? MF_DEMO_CUT : MF_DEMO_TERMINATED;
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
    return rc < 0 ? rc : read_ends(d, demo, flags, o->end + at, err);
}

int mf_outcomes_read(struct mf_outcomes *o, struct mf_demos *d, struct mf_err *err)
{
    float *flags = NULL;
    *o = (struct mf_outcomes){NULL, NULL};
    int rc = mf_alloc((void **)&o->rewards, d->total * sizeof *o->rewards, "rewards", err);
    rc = rc ? rc : mf_alloc((void **)&o->end, d->total, "ends of episodes", err);
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
    *o = (struct mf_outcomes){NULL, NULL};
}
