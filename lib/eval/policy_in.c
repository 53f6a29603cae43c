#include "eval/policy_in.h"

#include "flow/checkpoint.h"

int mf_policy_obs(struct mf_layout *obs, const struct mf_env *env, const struct mf_env_opts *eo,
                  const struct mf_names *keys, const struct mf_layout *like, struct mf_err *err)
{
    int rc = mf_env_layout(env, keys->n, keys->v, like, obs, err);
    if (rc == 0 && obs->n == 0)
        rc = mf_err_set(err, MF_EUSAGE,
                        "env=%s has no low-dimensional observation: name its others in policy.obs_keys, such as %s",
                        env->name, env->obs[0].name);
    if (rc == 0)
        mf_env_points(env, obs, (int)eo->num_points);
    if (rc == 0)
        mf_env_side(env, obs, (int)eo->image_size);
    return rc;
}

int mf_policy_spec_in(struct mf_policy_spec *s, const struct mf_env *env, const struct mf_env_opts *eo,
                      const struct mf_loaded *l, const struct mf_names *keys, const struct mf_conf *conf,
                      struct mf_err *err)
{
    struct mf_layout obs;
    int rc = mf_policy_obs(&obs, env, eo, keys, l ? &mf_loaded_spec(l)->obs : NULL, err);
    if (rc)
        return rc;
    return l ? mf_policy_spec_adopt(s, l, conf, &obs, env->action_dim, err)
             : mf_policy_spec_make(s, conf, &obs, env->action_dim, err);
}
