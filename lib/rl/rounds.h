/* rounds.h - assembles per-source frames into complete rounds.
 *
 * A round is complete when each connected source has sent its slices and its round frame. Sources join, restart and
 * leave; with collect.max_lag a source may be a round ahead. A frame that arrives twice counts once.
 */
#ifndef MF_RL_ROUNDS_H
#define MF_RL_ROUNDS_H

#include "base/err.h"
#include "stream/frame.h"

struct mf_round_part { /* one source's part of a round; struct mf_rounds owns its frames until mf_rounds_drop */
    const char *src;
    struct mf_frame *const *slices;
    int n;
    const struct mf_frame *round;
};

struct mf_rounds;

/* The first round is complete only once `need` sources have joined. */
struct mf_rounds *mf_rounds_new(int lag, int need);
void mf_rounds_free(struct mf_rounds *q); /* NULL is fine */

/* A source joins, or restarts: its frames of incomplete rounds are dropped, since it sends them again. Returns the
 * number of sources that `need` still lacks. */
int mf_rounds_join(struct mf_rounds *q, const char *src);
/* A source leaves. Later rounds do not wait for it; its complete parts, whose number is returned, are still used. */
int mf_rounds_leave(struct mf_rounds *q, const char *src);

/* A source is rejected: all of its frames are dropped, and it no longer counts towards `need`. */
void mf_rounds_refuse(struct mf_rounds *q, const char *src);

/* Keeps a rollout or a round frame; `iter` is the round that is due. MF_EFORMAT: a round or a slice is missing. */
int mf_rounds_add(struct mf_rounds *q, struct mf_frame *f, int64_t iter, struct mf_err *err);
bool mf_rounds_whole(const struct mf_rounds *q, int64_t iter);
/* The parts of a complete round, sorted by source; the caller frees the list. */
struct mf_round_part *mf_rounds_parts(const struct mf_rounds *q, int64_t iter, int *n);
void mf_rounds_drop(struct mf_rounds *q, int64_t iter); /* the round is consumed */

#endif
