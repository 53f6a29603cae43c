#include "eval/policy_in.h"

#include "base/resize.h"
#include "env/words.h"
#include "flow/checkpoint.h"

/* A server gives pictures and clouds in its own sizes. */
static int check_sizes(const struct mf_layout *l, const struct mf_env *env, const struct mf_env_opts *o,
                       struct mf_err *err)
{
    char is[64];
    for (int i = 0; i < l->n; i++) {
        const struct mf_obs *k = &l->key[i];
        const bool side =
            mf_obs_is_picture(k) && o->image_size && (k->dim[0] != o->image_size || k->dim[1] != o->image_size);
        if (!side && !(mf_obs_is_cloud(k) && o->num_points && k->dim[0] != o->num_points))
            continue;
        return mf_err_set(
            err, MF_EUSAGE,
            "%s=%lld does not reach the server of env=%s, whose '%s' is %s: give the server that size, and no %s here",
            side ? "env.image_size" : "env.num_points", (long long)(side ? o->image_size : o->num_points), env->name,
            k->name, mf_obs_shape(k, is), side ? "env.image_size" : "env.num_points");
    }
    return 0;
}

int mf_policy_obs(struct mf_layout *obs, const struct mf_env *env, const struct mf_env_opts *eo,
                  const struct mf_names *keys, const struct mf_layout *like, bool read, struct mf_err *err)
{
    int rc = mf_env_layout(env, keys->n, keys->v, like, obs, err);
    if (read && keys->n == 0 && !like)
        mf_layout_drop(obs, MF_OBS_TOKENS);
    if (rc == 0 && read)
        mf_words_unread(eo, obs);
    if (rc == 0 && obs->n == 0)
        rc = mf_err_set(err, MF_EUSAGE,
                        "env=%s has no low-dimensional observation: name its others in policy.obs_keys, such as %s",
                        env->name, env->obs[0].name);
    if (rc == 0)
        mf_env_points(env, obs, (int)eo->num_points);
    if (rc == 0)
        mf_env_side(env, obs, (int)eo->image_size);
    if (rc || (rc = check_sizes(obs, env, eo, err)))
        return rc;
    if (eo->policy_side && eo->image_size && eo->policy_side != eo->image_size)
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.image_size=%lld and env.image_size=%lld: env=%s draws pictures in the policy's size, so "
            "leave env.image_size out",
            (long long)eo->policy_side, (long long)eo->image_size, env->name);
    mf_layout_side(obs, (int)eo->policy_side);
    return 0;
}

int mf_policy_spec_in(struct mf_policy_spec *s, const struct mf_env *env, const struct mf_env_opts *eo,
                      const struct mf_loaded *l, const struct mf_names *keys, const struct mf_conf *conf,
                      struct mf_err *err)
{
    struct mf_layout obs;
    int rc = mf_policy_obs(&obs, env, eo, keys, l ? &mf_loaded_spec(l)->obs : NULL, true, err);
    if (rc)
        return rc;
    rc = l ? mf_policy_spec_adopt(s, l, conf, &obs, env->action_dim, NULL, err)
           : mf_policy_spec_make(s, conf, &obs, env->action_dim, err);
    return rc ? rc
              : mf_policy_spec_tokenizer(s, l ? mf_loaded_path(l) : "", mf_words_digest(env->words),
                                         mf_words_pieces(env->words), err);
}
