/* smdp.h - what follows a sample of demonstrations when its chunk of C actions is executed: a semi-Markov decision
 * process with one transition a chunk, discounted by control steps.
 *
 *   R = sum_{i < n} gamma^i r_{t+i},  n = min(C, steps to the episode's end)
 *   Q(s_t, a_t..a_{t+C-1}) = R + gamma^n V(s_{t+n}), without the last term if a terminal state ends the episode within
 *
 * The state behind a cut (a time limit, the end of a file) is in no file, so a chunk that would reach it stops in the
 * last state that is: n is one less there, and 0, without a target, at the last step itself.
 */
#ifndef MF_RL_SMDP_H
#define MF_RL_SMDP_H

#include "demos/outcomes.h"
#include "base/err.h"
#include "flow/dataset.h"

struct mf_smdp {
    float reward;    /* R */
    float discount;  /* gamma^n; 0 where the episode terminates within */
    float gain;      /* the discounted rewards from here to the end of the episode, without a value after a cut */
    int32_t ahead;   /* n: the next state is that of n steps later */
    bool terminates; /* within the chunk */
    bool success;    /* of the episode */
};

/* Steps [from, from + n) of the outcomes, a demonstration. */
void mf_smdp_of(const struct mf_outcomes *o, size_t from, size_t n, int C, double gamma, struct mf_smdp *to);
static inline bool mf_smdp_has_target(const struct mf_smdp *s)
{
    return s->terminates || s->ahead > 0;
}

/* Those of all samples of w, (w->n), malloc'ed. MF_EFORMAT where a demonstration has no rewards. */
int mf_smdp_read(struct mf_smdp **s, const struct mf_dataset *w, double gamma, struct mf_err *err);

#endif
