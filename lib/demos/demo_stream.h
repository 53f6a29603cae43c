/* demo_stream.h - demonstrations of any origin as a stream of rollouts.
 *
 * A head; for each demonstration a rollout of one environment, with one action a decision; a round that tallies the
 * episodes; an end. All rollouts have the steps T of the longest demonstration: `valid` is 0 behind the end of another.
 */
#ifndef MF_DEMOS_DEMO_STREAM_H
#define MF_DEMOS_DEMO_STREAM_H

#include "demos/demos.h"
#include "stream/frame.h"

struct mf_demo_stream;

/* The demonstrations that opts choose. MF_EFORMAT where one has no rewards. */
int mf_demo_stream_open(struct mf_demo_stream **s, const char *path, const struct mf_demos_opts *opts,
                        struct mf_err *err);
/* 1 and the next frame, which the caller frees; 0 after the end. */
int mf_demo_stream_next(struct mf_demo_stream *s, struct mf_frame **f, struct mf_err *err);
void mf_demo_stream_close(struct mf_demo_stream *s); /* NULL is fine */

#endif
