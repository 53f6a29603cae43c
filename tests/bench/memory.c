/* memory - what mf-ppo would take, in MiB, nothing of it allocated: memory [key=value ..], the environment's layout
 * first. */
#include <stdio.h>
#include <stdlib.h>

#include "env/env.h"
#include "flow/spec_keys.h"
#include "rl/ppo_keys.h"
#include "rl/trainer.h"

struct words {
    struct mf_env_opts env;
    struct mf_names obs_keys;
    struct mf_trainer_opts opts;
    int64_t num_envs, steps;
};

static const struct mf_bind binds[] = {
    {"policy.obs_keys", offsetof(struct words, obs_keys)},
    {"training.num_envs", offsetof(struct words, num_envs)},
    {"training.num_steps_per_rollout", offsetof(struct words, steps)},
    {0},
};

static int estimate(const struct words *w, const struct mf_conf *c, struct mf_memory *to, struct mf_err *err)
{
    const struct mf_env *env;
    struct mf_layout obs;
    struct mf_policy_spec spec;
    int rc = mf_env_open(&env, &w->env, err);
    if (rc || (rc = mf_env_layout(env, w->obs_keys.n, w->obs_keys.v, NULL, &obs, err)))
        return rc;
    mf_env_points(env, &obs, (int)w->env.num_points);
    mf_env_side(env, &obs, (int)w->env.image_size);
    if ((rc = mf_policy_spec_make(&spec, c, &obs, env->action_dim, err)))
        return rc;
    return mf_trainer_memory(&spec, &w->opts, (size_t)(w->num_envs * w->steps), 2, to, err);
}

int main(int argc, char **argv)
{
    struct words w = {.opts = {.algorithm = &mf_algorithm_ppo, .device = "cpu", .threads = 2, .precision = MF_FP32}};
    struct mf_memory m = {.beside = NULL};
    struct mf_err err;
    struct mf_conf *c = mf_conf_new();
    const struct mf_sources from = {.n_words = argc - 1, .word = (const char *const *)(argv + 1)};
    if (mf_conf_load(c, &from, &err) || mf_conf_bind(c, binds, &w, &err) ||
        mf_conf_bind(c, mf_env_binds, &w.env, &err) || mf_conf_bind(c, mf_ppo_binds, &w.opts.ppo, &err) ||
        estimate(&w, c, &m, &err)) {
        fprintf(stderr, "memory: %s\n", err.text);
        return 1;
    }
    printf("%.0f\n", mf_memory_sum(&m) / (1 << 20));
    mf_conf_free(c);
    return 0;
}
