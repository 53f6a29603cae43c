/* policy_in.h - a policy in an environment: its observations' layout and its spec. */
#ifndef MF_EVAL_POLICY_IN_H
#define MF_EVAL_POLICY_IN_H

#include "base/err.h"
#include "conf/conf.h"
#include "env/env.h"
#include "flow/spec_keys.h"

struct mf_loaded;

/* The layout of observations: policy.obs_keys, or those of `like` if there are none (mf_env_layout). Clouds have
 * env.num_points points, pictures env.image_size pixels a side. read: by a network, to which ids are no numbers, so it
 * gets tokens where policy.obs_keys or `like` names them; eo->warn reports a tokenizer whose tokens the policy does not
 * read. */
int mf_policy_obs(struct mf_layout *obs, const struct mf_env *env, const struct mf_env_opts *eo,
                  const struct mf_names *keys, const struct mf_layout *like, bool read, struct mf_err *err);

/* The spec of a checkpoint in env, overridden by the keys that were set; l NULL: a fresh spec from the keys alone. */
int mf_policy_spec_in(struct mf_policy_spec *s, const struct mf_env *env, const struct mf_env_opts *eo,
                      const struct mf_loaded *l, const struct mf_names *keys, const struct mf_conf *conf,
                      struct mf_err *err);

#endif
