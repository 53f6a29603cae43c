#include "import/demos_in.h"

#include <stdio.h>
#include <string.h>

#include "base/resize.h"
#include "env/words.h"
#include "nn/net.h"

/* The keys of the environment that was named, or that the file names where it is one of ours (no keys where it is
 * none), or of what env is, a guess. */
static int find_world(const char *path, struct mf_env_opts *o, bool named, char world[64], struct mf_layout *low,
                      bool *guessed, struct mf_err *err)
{
    struct mf_env_opts bare = *o; /* the tokens are of the file's words */
    const struct mf_env *env;
    bare.suite = bare.tokenizer = NULL;
    *world = 0;
    int rc = named ? 0 : mf_demos_env(path, world, err);
    *guessed = !named && !*world;
    if (rc == 0 && *world) {
        if (!(env = mf_env_robomimic(world)))
            return 0;
        bare.name = o->name = env->name;
    }
    if (*guessed)
        bare.model = NULL;
    if (rc || (rc = mf_env_open(&env, &bare, err))) {
        struct mf_err ignored; /* one that is none of ours is meant where the file names it as well */
        if (named && rc == MF_EUSAGE && mf_demos_env(path, world, &ignored) == 0 && !strcmp(world, o->name))
            return 0;
        *world = 0;
        return rc;
    }
    snprintf(world, 64, "%s", env->name);
    rc = mf_env_layout(env, 0, NULL, NULL, low, err);
    mf_env_close(env);
    return rc;
}

int mf_demos_open_in(struct mf_demos *d, const char *path, const struct mf_demos_opts *opts, int n,
                     const char (*names)[64], struct mf_env_opts *env, bool named, char world[64], struct mf_err *err)
{
    struct mf_layout low = {0};
    struct mf_demos_opts o = *opts;
    const char *keys[MF_OBS_KEYS + 1]; /* one too many is an error there */
    bool guessed;
    int rc = find_world(path, env, named, world, &low, &guessed, err);
    if (rc)
        return rc;
    o.keys = keys;
    o.without = MF_OBS_TOKENS; /* ids are no numbers: a policy reads them where it names them */
    o.n_keys = 0;
    for (int i = 0; i < n && i <= MF_OBS_KEYS; i++)
        keys[o.n_keys++] = names[i];
    for (int i = 0; n == 0 && i < low.n; i++)
        keys[o.n_keys++] = low.key[i].name;
    rc = mf_demos_open(d, path, &o, err);
    if (guessed && (rc || n))
        *world = 0;
    if (rc == MF_EFORMAT && !n && !named) {
        o.n_keys = 0;
        rc = mf_demos_open(d, path, &o, err);
    }
    return rc;
}

int mf_demos_show(const struct mf_demos *d, const char *path, const struct mf_env_opts *env, struct mf_layout *obs,
                  struct mf_err *err)
{
    for (int i = 1; i < d->n_columns; i++) {
        const struct mf_obs *o = &d->column[i].is;
        if (env->num_points && mf_obs_is_cloud(o) && o->dim[0] != env->num_points)
            return mf_err_set(
                err, MF_EUSAGE,
                "obs/%s of %s has %d points, and env.num_points=%lld: collect the demonstrations with it, "
                "or leave it to them (0)",
                o->name, path, o->dim[0], (long long)env->num_points);
        if (!strcmp(o->name, MF_ENCODING))
            return mf_err_set(
                err, MF_EUSAGE,
                "%s has the output of a frozen encoder (obs/%s) instead of what it saw: record rollouts with "
                "training.freeze_encoder=false to clone from them",
                path, o->name);
        if (env->image_size && mf_obs_is_picture(o) && (o->dim[0] != env->image_size || o->dim[1] != env->image_size))
            return mf_err_set(
                err, MF_EUSAGE,
                "obs/%s of %s has %d x %d pixels, and env.image_size=%lld: collect the demonstrations with "
                "it, or leave it to them (0)",
                o->name, path, o->dim[1], o->dim[0], (long long)env->image_size);
        if (!mf_layout_add(obs, o))
            return mf_err_set(err, MF_EUSAGE,
                              "%s has %d observations and a policy reads at most %d: choose by policy.obs_keys or env",
                              path, d->n_columns - 1, MF_OBS_KEYS);
    }
    mf_layout_side(obs, (int)env->policy_side);
    mf_words_unread(env, obs);
    return 0;
}
