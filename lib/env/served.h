/* served.h - environments in other processes: the asking side of the protocol of examples/envs/README.md.
 *
 * exec starts servers as children, each with a share of the environments;
 * remote connects to one. A server that dies, hangs up or is silent is
 * restarted (connected to anew) and its environments begin other episodes:
 * see mf_decision.lost. An answer of another shape, or to another question,
 * is an error.
 */
#ifndef MF_ENV_SERVED_H
#define MF_ENV_SERVED_H

#include "env/env.h"

struct mf_served;

/* Starts the first server, and asks what it serves. */
int mf_served_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
void mf_served_close(struct mf_served *s);
bool mf_served_renders(const struct mf_served *s); /* it answers with pictures, where they are asked for */

#endif
