/* rounds.h - what of which source is in: from frames as they arrive to rounds as they are learned from.
 *
 * A round is whole when each source that is here has sent all of it: its slices and its round frame. Sources come
 * (join), start over, and go (leave); with collect.max_lag a source may be a round ahead. What comes twice is taken
 * once.
 */
#ifndef MF_RL_ROUNDS_H
#define MF_RL_ROUNDS_H

#include "base/err.h"
#include "stream/frame.h"

struct mf_round_part { /* of a round, by one source; its frames are the rounds' until they are dropped */
    const char *src;
    struct mf_frame *const *slices;
    int n;
    const struct mf_frame *round;
};

struct mf_rounds;

/* `need` sources must have come before a first round is whole. */
struct mf_rounds *mf_rounds_new(int lag, int need);
void mf_rounds_free(struct mf_rounds *q); /* NULL is fine */

/* A source is here. What it sent of a round that is not in yet is forgotten: it sends it again. Returns how many are
 * still missing of the `need`. */
int mf_rounds_join(struct mf_rounds *q, const char *src);
/* It is gone: rounds go on without it, but for those that it had finished. */
void mf_rounds_leave(struct mf_rounds *q, const char *src);

/* It was turned away: it is none of the `need`, where no round was consumed yet, and nothing of it is learned from. */
void mf_rounds_refuse(struct mf_rounds *q, const char *src);

/* Keep a rollout or a round frame; `iter` is the round that is due. MF_EFORMAT: a round is missing, or slices are. */
int mf_rounds_add(struct mf_rounds *q, struct mf_frame *f, int64_t iter, struct mf_err *err);
bool mf_rounds_whole(const struct mf_rounds *q, int64_t iter);
/* The parts of a whole round, by name of source; the caller frees the list. */
struct mf_round_part *mf_rounds_parts(const struct mf_rounds *q, int64_t iter, int *n);
void mf_rounds_drop(struct mf_rounds *q, int64_t iter); /* it is consumed */

#endif
