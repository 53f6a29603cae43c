#include "eval/env_in.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "flow/checkpoint.h"
#include "run/runs.h"

bool mf_env_is_served(const char *name)
{
    return name && (!strcmp(name, "exec") || !strcmp(name, "remote"));
}

const char *mf_env_server(const struct mf_env_opts *o)
{
    return !strcmp(o->name, "exec") ? o->command : !strcmp(o->name, "remote") ? o->address : NULL;
}

/* The run that contains a checkpoint, or the path itself. */
static void folder_of(const char *path, char dir[MF_PATH_MAX])
{
    snprintf(dir, MF_PATH_MAX, "%.900s", path);
    for (int up = 0; up < 2 && !mf_runs_is_run(dir); up++) {
        char *slash = strrchr(dir, '/');
        snprintf(slash ? slash : dir, sizeof "/.", "%s", slash ? "" : up ? ".." : ".");
    }
}

/* A command recorded by another user is not started automatically. */
static int check_owner(const struct mf_env_opts *o, const char *dir, struct mf_err *err)
{
    struct stat st;
    const char *command = strcmp(o->name, "exec") ? NULL : o->command;
    if (!command || (stat(dir, &st) == 0 && st.st_uid == geteuid()))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "%.200s belongs to another user, and its environment is started by the command: %.300s; if you "
                      "trust it, give it as env.command",
                      dir, command);
}

static void take(const struct mf_bind *b, void *to, const struct mf_conf *was, const struct mf_conf *now)
{
    const struct mf_bind one[] = {*b, {0}};
    struct mf_err ignored;
    if (mf_conf_was_set(was, b->key) && !mf_conf_was_set(now, b->key))
        (void)mf_conf_bind(was, one, to, &ignored);
}

int mf_env_of_run(struct mf_env_opts *o, int64_t *max_steps, struct mf_conf **was, const struct mf_conf *now,
                  const char *path, struct mf_err *err)
{
    static const struct mf_bind steps = {"env.max_steps", 0};
    struct mf_at at;
    struct mf_err ignored;
    char dir[MF_PATH_MAX];
    if (mf_runs_at(&at, path, &ignored))
        return 0;
    folder_of(at.path, dir);
    const struct mf_conf *w = *was = mf_conf_new();
    if (mf_conf_recorded(*was, dir, "mf-collect", &ignored) && mf_conf_recorded(*was, dir, "mf-bc", &ignored))
        return 0;
    const char *name = mf_conf_text(now, "env.name");
    if (mf_conf_was_set(now, "env.name") && strcmp(name, mf_conf_text(w, "env.name")) != 0)
        return 0;
    take(&steps, max_steps, w, now);
    for (const struct mf_bind *b = mf_env_binds; b->key; b++)
        if (strcmp(b->key, "env.name") != 0 || mf_env_is_served(mf_conf_text(w, b->key)))
            take(b, o, w, now);
    const char *server = mf_env_server(o);
    if (!mf_conf_was_set(now, "env.command") && check_owner(o, dir, err))
        return err->code;
    if (server && !mf_conf_was_set(now, "env.name"))
        mf_log(MF_LOG_INFO, "env=%s %s, as recorded in %s", o->name, server, dir);
    return 0;
}

int mf_env_of_all(const struct mf_env **env, struct mf_env_opts *o, bool named, int n, const char *const *words,
                  struct mf_err *err)
{
    char path[MF_PATH_MAX];
    for (int i = 0; i < n; i++) { /* a missing last one is reported at once, not after hours */
        struct mf_loaded *l;
        int rc = mf_runs_checkpoint(words[i], path, err);
        if (rc || (rc = mf_checkpoint_open(&l, path, err)))
            return rc;
        const char *made_in = mf_loaded_spec(l)->env;
        if (!*env)
            rc = mf_env_open_for(env, o, named, path, made_in, err);
        else if (named)
            mf_env_compare(*env, o, path, made_in);
        else if (*made_in && strcmp(made_in, (*env)->name) != 0)
            rc = mf_err_set(err, MF_EUSAGE,
                            "%.150s was trained in env=%s, but those before it are evaluated in env=%s: evaluate it "
                            "separately, or give one env= for all",
                            path, made_in, (*env)->name);
        mf_checkpoint_close(l);
        if (rc)
            return rc;
    }
    return 0;
}
