/* staleness.h - which parts of a round may be learned from: their policy is one that the learner had, and its version
 * is not too many rounds old.
 */
#ifndef MF_RL_STALENESS_H
#define MF_RL_STALENESS_H

#include "base/err.h"
#include "flow/policy.h"
#include "rl/rounds.h"

struct mf_staleness {
    int64_t max_lag;          /* versions that a part may be behind the learner's */
    int64_t first;            /* the version that the learner started from */
    int64_t dropped, foreign; /* parts so far: too old; sampled by other weights than their version's, which is warned
                                 of once */
};

/* Of one source's part, with a slice at least: 0 it is learned from; 1 it is too old, which the log says. MF_EFORMAT
 * where no such version was made so far; MF_EUSAGE where its encodings are by another encoder than p's. digest: p's. */
int mf_staleness_check(struct mf_staleness *s, const struct mf_policy *p, const char *digest,
                       const struct mf_round_part *part, struct mf_err *err);

#endif
