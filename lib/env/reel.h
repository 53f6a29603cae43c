/* reel.h - a video of several environments side by side: recorded while they are stepped, encoded later.
 *
 * A built-in environment is recorded as states, which are rendered later. One in another process renders itself; its
 * images, scaled to a tile, are stored in a temporary file.
 */
#ifndef MF_ENV_REEL_H
#define MF_ENV_REEL_H

#include "env/vec.h"

struct mf_reel;

/* For the environments 0..n-1. MF_EUSAGE: env has no images. */
int mf_reel_new(struct mf_reel **r, const struct mf_env *env, int n, struct mf_err *err);
void mf_reel_free(struct mf_reel *r); /* NULL is fine */
/* The recorder for struct mf_vec_opts. NULL: none. */
struct mf_watch mf_reel_watch(struct mf_reel *r);
/* Writes the recording in real time to path (.mp4 or .gif): a tile per environment, framed green if good[i] (n),
 * otherwise red, once its episode is over. Empties the reel. */
int mf_reel_play(struct mf_reel *r, const char *path, const bool *good, struct mf_err *err);

#endif
