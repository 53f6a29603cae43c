/* serve.h - serves a built-in environment to another process, by the protocol of examples/envs/README.md. */
#ifndef MF_ENV_SERVE_H
#define MF_ENV_SERVE_H

#include "stream/frame.h"
#include "env/env.h"
#include "wire/rpc.h"

/* The environments that were made last. All values of a request are checked here, since clients are not trusted.
 * threads as in vec.h; image_size: side of the pictures that it offers, 0: the environment's own. */
struct mf_service;
struct mf_service *mf_service_new(const struct mf_env *env, int threads, int image_size);
/* The reply, possibly an error message; the caller frees it. */
struct mf_frame *mf_service_answer(struct mf_service *v, const struct mf_frame *question, const char *say, int64_t seq);
void mf_service_free(struct mf_service *v);

/* Serves until the client closes the connection (0) or a signal arrives. An invalid request ends a pipe; on a socket it
 * gets an error reply, and another client may follow. */
int mf_env_serve(struct mf_rpc *c, const struct mf_env *env, int threads, int image_size, struct mf_err *err);

#endif
