/* staleness.h - selects the parts of a round to learn from: a version of this learner's policy sampled them, and that
 * version is not too old.
 */
#ifndef MF_RL_STALENESS_H
#define MF_RL_STALENESS_H

#include "base/err.h"
#include "flow/policy.h"
#include "rl/rounds.h"

struct mf_staleness {
    int64_t max_lag;          /* largest number of versions behind the learner's */
    int64_t first;            /* the first version of this learner's run that it knows the noise of */
    int64_t dropped, foreign; /* parts so far: too old; sampled by other weights than their version's (one warning) */
};

/* Checks one source's part, of at least one slice. 0: learn from it; 1: it is too old, and a warning is logged.
 * MF_EFORMAT: its version does not exist yet. MF_EUSAGE: another encoder than p's made its encodings. digest: p's. */
int mf_staleness_check(struct mf_staleness *s, const struct mf_policy *p, const char *digest,
                       const struct mf_round_part *part, struct mf_err *err);

#endif
