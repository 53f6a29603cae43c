/* reel.h - a video of some environments side by side: record them while they are stepped, play the recording later.
 *
 * Of a built-in environment the states are recorded, and drawn when they are played. One in another process renders
 * itself; its pictures, scaled to a tile, wait in a temporary file.
 */
#ifndef MF_ENV_REEL_H
#define MF_ENV_REEL_H

#include "env/vec.h"

struct mf_reel;

/* Of the environments 0..n-1. MF_EUSAGE where there are no pictures of env. */
int mf_reel_new(struct mf_reel **r, const struct mf_env *env, int n, struct mf_err *err);
void mf_reel_free(struct mf_reel *r); /* NULL is fine */
/* For struct mf_vec_opts: what fills the reel. NULL: nobody watches. */
struct mf_watch mf_reel_watch(struct mf_reel *r);
/* The video of what was recorded, in real time, to path (.mp4 or .gif): a tile for each environment, framed green
 * where good[i] (n), else red, once its episode is over. Then the reel is empty. */
int mf_reel_play(struct mf_reel *r, const char *path, const bool *good, struct mf_err *err);

#endif
