/* serve.h - a built-in environment for another process: the answering side of the protocol of examples/envs/README.md.
 */
#ifndef MF_ENV_SERVE_H
#define MF_ENV_SERVE_H

#include "stream/frame.h"
#include "env/env.h"
#include "wire/rpc.h"

/* What one asks of: the environments that were made last. What a question says is bounded here, whoever it is from. */
struct mf_service;
struct mf_service *mf_service_new(const struct mf_env *env, int threads); /* threads as in vec.h */
/* The answer, which may be the reason why there is none; the caller frees it. */
struct mf_frame *mf_service_answer(struct mf_service *v, const struct mf_frame *question, const char *say, int64_t seq);
void mf_service_free(struct mf_service *v);

/* Answers until the other side hangs up (0), or a signal asks for an end. What is no question ends a pipe; over a
 * socket it gets its reason, and another may ask. */
int mf_env_serve(struct mf_rpc *c, const struct mf_env *env, int threads, struct mf_err *err);

#endif
