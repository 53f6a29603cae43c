/* reel.h - a video of some environments side by side: record their states while they are stepped, draw them later. */
#ifndef MF_ENV_REEL_H
#define MF_ENV_REEL_H

#include "env/env.h"

struct mf_reel;

/* Of the environments 0..n-1. MF_EUSAGE where env cannot be drawn. */
int mf_reel_new(struct mf_reel **r, const struct mf_env *env, int n, struct mf_err *err);
void mf_reel_free(struct mf_reel *r); /* NULL is fine */
/* As struct mf_vec_opts's watch, with the reel as the watcher. Others than 0..n-1 are passed over. */
void mf_reel_watch(void *reel, int env, void *state);
/* The video of what was recorded, in real time, to path (.mp4 or .gif): a tile for each environment, framed green
 * where good[i] (n), else red, once its episode is over. Then the reel is empty. */
int mf_reel_play(struct mf_reel *r, const char *path, const bool *good, struct mf_err *err);

#endif
