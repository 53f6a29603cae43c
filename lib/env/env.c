#include "env/env.h"

#include <stdio.h>
#include <string.h>

int mf_env_find(const struct mf_env **env, const char *name, struct mf_err *err)
{
    char names[256] = "";
    for (int i = 0; mf_envs[i]; i++) {
        if (!strcmp(mf_envs[i]->name, name)) {
            *env = mf_envs[i];
            return 0;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", mf_envs[i]->name);
    }
    return mf_err_set(err, MF_EUSAGE, "there is no environment '%s'; env.name is one of: %s", name, names);
}

int mf_env_obs_dim(const struct mf_env *env)
{
    int dim = 0;
    for (int i = 0; i < MF_OBS_KEYS && env->obs[i].name; i++)
        dim += env->obs[i].dim;
    return dim;
}
