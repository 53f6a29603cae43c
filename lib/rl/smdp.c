#include "rl/smdp.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The transition at step t of an episode whose last step is `last`. */
static void one(const float *rewards, bool terminal, size_t t, size_t last, int C, double gamma, struct mf_smdp *to)
{
    const size_t left = last - t + 1;
    double sum = 0, power = 1;
    to->terminates = terminal && left <= (size_t)C;
    to->ahead = (int32_t)(left > (size_t)C ? (size_t)C : terminal ? left : left - 1);
    for (int i = 0; i < to->ahead; i++, power *= gamma)
        sum += power * (double)rewards[t + (size_t)i];
    to->reward = (float)sum;
    to->discount = to->terminates ? 0 : (float)power;
}

void mf_smdp_of(const struct mf_outcomes *o, size_t from, size_t n, int C, double gamma, struct mf_smdp *to)
{
    const float *rewards = o->rewards + from;
    const uint8_t *end = o->end + from;
    double gain = 0;
    for (size_t t = n, last = n - 1; t-- > 0;) {
        if (t == n - 1 || end[t] != MF_DEMO_GOES_ON)
            last = t, gain = 0;
        gain = (double)rewards[t] + gamma * gain;
        to[t] = (struct mf_smdp){.gain = (float)gain, .success = o->success[from + t]};
        one(rewards, end[last] == MF_DEMO_TERMINATED, t, last, C, gamma, &to[t]);
    }
}

int mf_smdp_read(struct mf_smdp **out, const struct mf_dataset *w, double gamma, struct mf_err *err)
{
    const struct mf_demos *d = w->d;
    struct mf_outcomes o;
    struct mf_smdp *all = NULL, *s = NULL;
    int rc = mf_outcomes_read(&o, w->d, err);
    rc = rc ? rc : mf_alloc((void **)&all, d->total * sizeof *all, "transitions", err);
    rc = rc ? rc : mf_alloc((void **)&s, w->n * sizeof *s, "transitions", err);
    for (size_t i = 0, at = 0; rc == 0 && i < d->n_demos; at += d->demo[i++].n) {
        mf_smdp_of(&o, at, d->demo[i].n, w->p->spec.n_action_steps, gamma, all + at);
        memcpy(s + w->first[i], all + at + w->begin, (w->first[i + 1] - w->first[i]) * sizeof *s);
    }
    mf_outcomes_release(&o);
    free(all);
    if (rc)
        free(s);
    else
        *out = s;
    return rc;
}
