/* served.h - environments in other processes: the client of the protocol of examples/envs/README.md.
 *
 * exec starts servers as child processes, each with a share of the environments; remote connects to one. A server that
 * dies, disconnects or times out is restarted (reconnected), and its environments start other episodes: see
 * mf_decision.lost. A reply of a wrong shape, or to another request, is an error.
 */
#ifndef MF_ENV_SERVED_H
#define MF_ENV_SERVED_H

#include "env/env.h"

struct mf_served;

/* Starts the first server and requests the description of its environment. */
int mf_served_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
void mf_served_close(struct mf_served *s);
bool mf_served_renders(const struct mf_served *s); /* it can reply with images */

#endif
