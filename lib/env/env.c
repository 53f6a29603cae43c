#include "env/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/resize.h"
#include "env/opengl.h"
#include "base/text.h"
#include "env/served.h"
#include "env/words.h"
#include "lang/prompter.h"

const struct mf_bind mf_env_binds[] = {{"env.name", offsetof(struct mf_env_opts, name)},
                                       {"env.command", offsetof(struct mf_env_opts, command)},
                                       {"env.address", offsetof(struct mf_env_opts, address)},
                                       {"env.model", offsetof(struct mf_env_opts, model)},
                                       {"env.workers", offsetof(struct mf_env_opts, workers)},
                                       {"env.restarts", offsetof(struct mf_env_opts, restarts)},
                                       {"env.timeout", offsetof(struct mf_env_opts, timeout)},
                                       {"env.num_points", offsetof(struct mf_env_opts, num_points)},
                                       {"env.image_size", offsetof(struct mf_env_opts, image_size)},
                                       {"env.renderer", offsetof(struct mf_env_opts, renderer)},
                                       {"policy.image_size", offsetof(struct mf_env_opts, policy_side)},
                                       {"env.suite", offsetof(struct mf_env_opts, suite)},
                                       {"policy.tokenizer", offsetof(struct mf_env_opts, tokenizer)},
                                       {"policy.prompt_length", offsetof(struct mf_env_opts, prompt_length)},
                                       {0}};

int mf_env_find(const struct mf_env **env, const char *name, struct mf_err *err)
{
    char names[256] = "";
    for (int i = 0; mf_envs[i]; i++) {
        if (!strcmp(mf_envs[i]->name, name)) {
            *env = mf_envs[i];
            return 0;
        }
        mf_list_add(names, sizeof names, ", ", mf_envs[i]->name);
    }
    return mf_err_set(err, MF_EUSAGE, "unknown environment '%s'; available: %s, and those of a server (exec, remote)",
                      name, names);
}

struct mf_env *mf_env_own(const struct mf_env **env)
{
    struct mf_env *own = (struct mf_env *)(uintptr_t)*env;
    if (!own->copied) {
        own = mf_xcalloc(1, sizeof *own);
        *own = **env;
        own->copied = true;
        *env = own;
    }
    return own;
}

static int with_words(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err)
{
    int rc = mf_words_open(env, o, err);
    if (rc) {
        mf_env_close(*env);
        *env = NULL;
    }
    return rc;
}

int mf_env_open_built_in(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err)
{
    mf_opengl_choose((enum mf_renderer)o->renderer);
    int rc = mf_env_find(env, o->name, err);
    if (rc == 0 && o->model && !(*env)->by_file)
        return mf_err_set(err, MF_EUSAGE, "env=%s has its model built in: leave env.model=%.200s out", o->name,
                          o->model);
    if (rc == 0 && o->model)
        mf_env_own(env)->file = o->model;
    return rc ? rc : with_words(env, o, err);
}

int mf_env_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err)
{
    bool exec = !strcmp(o->name, "exec"), remote = !strcmp(o->name, "remote");
    if (!exec && !remote)
        return mf_env_open_built_in(env, o, err);
    if (exec && !o->command)
        return mf_err_set(err, MF_EUSAGE,
                          "env=exec needs env.command='..', the command that starts an environment server");
    if (remote && !o->address)
        return mf_err_set(err, MF_EUSAGE, "env=remote needs env.address=tcp://127.0.0.1:PORT or ipc://PATH");
    if (o->model)
        return mf_err_set(err, MF_EUSAGE,
                          "env.model=%.200s does not reach the server of env=%s: give it to the server, not here",
                          o->model, o->name);
    int rc = mf_served_open(env, o, err);
    return rc ? rc : with_words(env, o, err);
}

void mf_env_compare(const struct mf_env *env, const struct mf_env_opts *o, const char *path, const char *made_in)
{
    char text[400];
    if (!*made_in || !strcmp(env->name, made_in) || !o->warn)
        return;
    snprintf(text, sizeof text, "%.150s was trained in env=%.63s and now runs in env=%.63s, as given", path, made_in,
             env->name);
    o->warn(text);
}

int mf_env_open_for(const struct mf_env **env, struct mf_env_opts *o, bool named, const char *path, const char *made_in,
                    struct mf_err *err)
{
    struct mf_err none;
    if (!named && *made_in && mf_env_find(env, made_in, &none))
        return mf_err_set(err, MF_EUSAGE,
                          "%.150s was trained in '%s', which is not built in: give env=exec env.command='..' or "
                          "env=remote env.address=.. for a server of it, or env=NAME for another",
                          path, made_in);
    o->name = named || !*made_in ? o->name : made_in;
    int rc = mf_env_open(env, o, err);
    if (rc == 0)
        mf_env_compare(*env, o, path, made_in);
    return rc;
}

const struct mf_env *mf_env_robomimic(const char *name)
{
    for (int i = 0; mf_envs[i]; i++)
        if (mf_envs[i]->robomimic_name && !strcmp(mf_envs[i]->robomimic_name, name))
            return mf_envs[i];
    return NULL;
}

void mf_env_close(const struct mf_env *env)
{
    if (!env)
        return;
    const bool copied = env->copied; /* else a served one is a part of what closing frees */
    mf_words_free(env->words);
    if (env->served)
        mf_served_close(env->served);
    if (copied)
        free((void *)(uintptr_t)env);
}

int32_t mf_env_count(int32_t saved)
{
    return saved < 0 ? 0 : saved > 1 << 30 ? 1 << 30 : saved;
}

int mf_env_key(const struct mf_env *env, const char *name)
{
    for (int i = 0; i < MF_OBS_KEYS && env->obs[i].name[0]; i++)
        if (!strcmp(env->obs[i].name, name))
            return i;
    return -1;
}

static int add_key(const struct mf_env *env, const char *name, struct mf_layout *l, struct mf_err *err)
{
    int key = mf_env_key(env, name);
    if (mf_layout_column(l, name) >= 0)
        return mf_err_set(err, MF_EUSAGE, "policy.obs_keys lists the observation '%s' twice", name);
    if (key >= 0)
        return mf_layout_add(l, &env->obs[key])
                   ? 0
                   : mf_err_set(err, MF_EUSAGE, "a policy reads at most %d observations", MF_OBS_KEYS);
    char names[MF_OBS_KEYS * 66] = "";
    for (int i = 0; i < MF_OBS_KEYS && env->obs[i].name[0]; i++)
        mf_list_add(names, sizeof names, ", ", env->obs[i].name);
    return mf_err_set(err, MF_EUSAGE, "env=%s has no observation '%s'; its policy.obs_keys are: %s%s", env->name, name,
                      names, env->language.text && !env->words ? ", and tokens with policy.tokenizer=FILE" : "");
}

/* Is it made of the task's words? */
static bool is_spoken(const struct mf_env *env, const struct mf_obs *o)
{
    return env->words && !strcmp(o->name, MF_OBS_TOKENS);
}

/* As many tokens as in `like`, unless a key says how many. */
static void set_length(const struct mf_env *env, struct mf_layout *l, const struct mf_layout *like)
{
    const struct mf_obs *was = mf_layout_find(like, MF_OBS_TOKENS);
    struct mf_layout sized = {0};
    for (int i = 0; i < l->n; i++) {
        struct mf_obs o = l->key[i];
        if (was && is_spoken(env, &o) && mf_words_any_length(env->words))
            o.dim[0] = was->dim[0];
        mf_layout_add(&sized, &o);
    }
    *l = sized;
}

/* A built-in environment gives a cloud with any number of points. */
void mf_env_points(const struct mf_env *env, struct mf_layout *l, int points)
{
    if (points && !env->served)
        mf_layout_points(l, points);
}

static bool is_drawn(const struct mf_env *env, const struct mf_obs *o)
{
    return env->picture && mf_obs_is_picture(o);
}

void mf_env_side(const struct mf_env *env, struct mf_layout *l, int side)
{
    struct mf_layout sized = {0};
    for (int i = 0; i < l->n; i++) {
        struct mf_obs o = l->key[i];
        if (side && is_drawn(env, &o))
            o.dim[0] = o.dim[1] = side;
        mf_layout_add(&sized, &o);
    }
    *l = sized;
}

bool mf_env_draws(const struct mf_env *env, const struct mf_layout *l)
{
    for (int i = 0; i < l->n; i++)
        if (is_drawn(env, &l->key[i]))
            return true;
    return false;
}

static bool can_draw(const struct mf_obs *o)
{
    return o->dim[0] == o->dim[1] && o->dim[0] >= MF_SIDE_MIN && o->dim[0] <= MF_SIDE_MAX;
}

int mf_env_layout(const struct mf_env *env, int n, const char (*names)[64], const struct mf_layout *like,
                  struct mf_layout *l, struct mf_err *err)
{
    int rc = 0;
    *l = (struct mf_layout){0};
    if (n == 0 && !like)
        for (int i = 0; i < MF_OBS_KEYS && env->obs[i].name[0]; i++)
            if (mf_obs_rank(&env->obs[i]) == 1)
                mf_layout_add(l, &env->obs[i]);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = add_key(env, names[i], l, err);
    for (int i = 0; rc == 0 && n == 0 && like && i < like->n; i++)
        rc = add_key(env, like->key[i].name, l, err);
    for (int i = 0; rc == 0 && like && i < like->n; i++)
        if (mf_obs_is_cloud(&like->key[i]) && like->key[i].dim[0] <= MF_POINTS_MAX)
            mf_env_points(env, l, like->key[i].dim[0]);
        else if (mf_obs_is_picture(&like->key[i]) && can_draw(&like->key[i]))
            mf_env_side(env, l, like->key[i].dim[0]);
    if (rc == 0 && like)
        set_length(env, l, like);
    return rc;
}

int mf_env_shows(const struct mf_env *env, const struct mf_obs *as, struct mf_err *err)
{
    const int key = mf_env_key(env, as->name);
    const struct mf_obs *own = key < 0 ? NULL : &env->obs[key];
    if (!own)
        return mf_err_set(err, MF_EUSAGE, "environment %s has no observation '%s'", env->name, as->name);
    const bool cloud = mf_obs_is_cloud(own) && !env->served;
    const bool drawn = is_drawn(env, own) || (env->served && mf_obs_is_resizable(own));
    const bool tokens = is_spoken(env, own) && mf_words_any_length(env->words) && as->dim[0] <= MF_PROMPT_MAX;
    bool same = own->u8 == as->u8;
    for (int i = drawn ? 2 : cloud || tokens; i < MF_OBS_RANK; i++)
        same = same && as->dim[i] == own->dim[i];
    const bool points = !cloud || (as->dim[0] >= 1 && as->dim[0] <= MF_POINTS_MAX);
    if (same && (!memcmp(as->dim, own->dim, sizeof own->dim) || (points && (!drawn || can_draw(as)))))
        return 0;
    char have[64], want[64];
    const char *possible = cloud   ? "; 1 to 4096 points are possible"
                           : drawn ? "; squares of 8 to 1024 pixels are possible"
                                   : "";
    return mf_err_set(err, MF_EUSAGE, "environment %s has the observation '%s' as %s, not as %s%s", env->name,
                      own->name, mf_obs_shape(own, have), mf_obs_shape(as, want), possible);
}

void mf_env_observe(const struct mf_env *env, void *state, const struct mf_layout *l, float *obs)
{
    for (int i = 0; i < l->n; i++) {
        if (!is_drawn(env, &l->key[i]) && !is_spoken(env, &l->key[i]))
            env->observe(state, mf_env_key(env, l->key[i].name), &l->key[i], obs);
        obs += mf_obs_size(&l->key[i]);
    }
}
