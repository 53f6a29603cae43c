/* env_in.h - the environment in which checkpoints are evaluated: the one that was named, else that of their run. */
#ifndef MF_EVAL_ENV_IN_H
#define MF_EVAL_ENV_IN_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/conf.h"
#include "env/env.h"

bool mf_env_is_served(const char *name); /* by another process: its name here is exec or remote; NULL is none */
/* What identifies the environments beyond their name, a server's command or address; NULL: they are built in. */
const char *mf_env_server(const struct mf_env_opts *o);
/* Keys of the environment that `now` leaves unset, and the control steps of a trial, are taken from the run of the
 * checkpoint or folder, if it is one. *was: its configuration, which o borrows from; NULL: none. MF_EUSAGE: the run
 * belongs to another user, whose command is not started unasked. */
int mf_env_of_run(struct mf_env_opts *o, int64_t *max_steps, struct mf_conf **was, const struct mf_conf *now,
                  const char *path, struct mf_err *err);
/* Opens the named environment, or the one that all n checkpoints, or runs, were trained in. MF_EUSAGE: they were
 * trained in several. */
int mf_env_of_all(const struct mf_env **env, struct mf_env_opts *o, bool named, int n, const char *const *words,
                  struct mf_err *err);

#endif
