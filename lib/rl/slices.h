/* slices.h - an actor's rollout as frames: slices of its environments, then the round frame that completes it. rounds.h
 * reads them.
 */
#ifndef MF_RL_SLICES_H
#define MF_RL_SLICES_H

#include "base/err.h"
#include "rl/actor.h"

enum { MF_SLICE_BYTES = 60 << 20 }; /* of a slice's arrays at most, unless one environment, or one group, takes more */

struct mf_slices { /* of one source's iteration; borrows */
    const struct mf_actor *actor;
    int64_t iter;
    const char *src;
    int of;                       /* number of slices */
    char digest[17], encoder[17]; /* of the policy that acted; "": no policy, or no encodings */
};

/* least: the minimum number of slices, of at least one environment, or one group, each. */
struct mf_slices mf_slices_cut(const struct mf_actor *a, int64_t least, int64_t iter, const char *src);
/* Slice k of `of`, a rollout frame; the caller frees it, also after an error. */
int mf_slices_frame(const struct mf_slices *s, int k, struct mf_frame **f, struct mf_err *err);
/* The round frame: means over the episodes and, of a policy's rollout, the actor's final state. The caller frees it,
 * also after an error. */
int mf_slices_round(const struct mf_slices *s, struct mf_frame **f, struct mf_err *err);

#endif
