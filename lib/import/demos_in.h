/* demos_in.h - demonstrations and the environment that they were made in: which observations of a file a clone sees. */
#ifndef MF_IMPORT_DEMOS_IN_H
#define MF_IMPORT_DEMOS_IN_H

#include "base/err.h"
#include "demos/demos.h"
#include "env/env.h"

/* Opens `path` with the n keys of names; without any, with the low-dimensional ones of the environment, in its order:
 * of env's where it was named, else of the one that the file names, which env then names, else of env's, a guess, which
 * gives way to all plain keys of the file where it has others. o's keys are ignored. world: that environment; "":
 * nobody knows. */
int mf_demos_open_in(struct mf_demos *d, const char *path, const struct mf_demos_opts *o, int n,
                     const char (*names)[64], struct mf_env_opts *env, bool named, char world[64], struct mf_err *err);

/* The layout of the observations that it was opened with. points: of a cloud, which must agree; 0: any. */
int mf_demos_show(const struct mf_demos *d, const char *path, int64_t points, struct mf_layout *obs,
                  struct mf_err *err);

#endif
