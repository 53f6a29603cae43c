/* demos_in.h - demonstrations in their environment: which observations of a file a cloned policy reads. */
#ifndef MF_IMPORT_DEMOS_IN_H
#define MF_IMPORT_DEMOS_IN_H

#include "base/err.h"
#include "demos/demos.h"
#include "env/env.h"

/* Opens `path` with the n observation keys of `names`. With n 0 the keys are the low-dimensional ones of an
 * environment, in its order: of *env where the user named it, else of the one that the file names, which *env then
 * becomes, else of *env as a guess; where the file lacks those keys, all its 1-D ones. o's own keys are ignored. world:
 * the environment's name; "": unknown. */
int mf_demos_open_in(struct mf_demos *d, const char *path, const struct mf_demos_opts *o, int n,
                     const char (*names)[64], struct mf_env_opts *env, bool named, char world[64], struct mf_err *err);

/* The layout of the observations that d was opened with. MF_EUSAGE where env asks for another number of points or
 * pixels than they have. */
int mf_demos_show(const struct mf_demos *d, const char *path, const struct mf_env_opts *env, struct mf_layout *obs,
                  struct mf_err *err);

#endif
