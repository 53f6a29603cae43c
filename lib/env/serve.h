/* serve.h - a built-in environment for another process: the answering side of the protocol of examples/envs/README.md.
 */
#ifndef MF_ENV_SERVE_H
#define MF_ENV_SERVE_H

#include "env/env.h"
#include "wire/call.h"

/* Answers until the other side hangs up (0), or a signal asks for an end. threads as in vec.h. A question that cannot
 * be answered gets its reason as answer. */
int mf_env_serve(struct mf_call *c, const struct mf_env *env, int threads, struct mf_err *err);

#endif
