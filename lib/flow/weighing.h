/* weighing.h - weights of the samples of a cloning: the seam between behaviour cloning and what estimates how good the
 * demonstrated actions are (lib/rl/offline.h).
 */
#ifndef MF_FLOW_WEIGHING_H
#define MF_FLOW_WEIGHING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "flow/checkpoint.h"

struct mf_weigh_batch { /* a minibatch that the policy is about to learn */
    int64_t step;
    size_t n;
    const uint32_t *sample;     /* (n) numbers of dataset samples */
    const float *obs, *actions; /* (n, O), (n, D) normalised */
};

struct mf_weigh_stats {
    double critic_loss, q_mean, advantage_mean; /* of the minibatch; NaN: there is none */
    double weight_mean, weight_std;
};

struct mf_weighing {
    const char *name; /* clone.weight */
    void *self;
    /* Trains on the minibatch, then gives weight (n), of mean 1. MF_EMATH: a loss is not finite. */
    int (*weigh)(void *self, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err);
    int (*settle)(void *self, struct mf_err *err); /* copies `side` to the host */
    const struct mf_side *side;                    /* its networks, which the checkpoint holds; NULL: it has none */
};

#endif
