/* env.h - what an environment is: functions on a state of its own.
 *
 * To add one, write lib/env/env_NAME.c that defines `mf_env_NAME`. Nothing
 * else changes. An environment does not log, hold globals, or reset itself:
 * after the last step its observation is the true last one. All instances of
 * a process share one `model` (read only: several threads step at once).
 */
#ifndef MF_ENV_ENV_H
#define MF_ENV_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

enum { MF_OBS_KEYS = 8 };

struct mf_obs_key {
    const char *name; /* "object": array obs/object of the stream; the concatenation in order is the flat observation */
    int dim;
};

struct mf_step {
    float reward;
    bool terminated; /* the task ended: no value beyond */
    bool truncated;  /* only the clock ended it: the value beyond still counts */
    bool success;
};

struct mf_env {
    const char *name;
    struct mf_obs_key obs[MF_OBS_KEYS]; /* ends with a NULL name */
    int action_dim;                     /* actions are in [-1, 1]; the environment clips */
    int max_steps;                      /* control steps of an episode, unless env.max_steps says otherwise */
    double control_hz;
    const char *robomimic_name; /* env_args' env_name in demonstration files: "Lift" */

    int (*open)(void **model, struct mf_err *err); /* shared by all instances; NULL where there is none */
    void (*close)(void *model);
    int (*init)(void **state, const void *model, int max_steps, struct mf_err *err);
    void (*release)(void *state);
    void (*reset)(void *state, struct mf_rng *rng, float *obs); /* obs: flat, obs_dim floats */
    struct mf_step (*step)(void *state, const float *action, float *obs);
    /* Everything that determines the future, so that steps after load are bit-equal. */
    size_t (*state_size)(const void *state);
    void (*save)(const void *state, void *bytes);
    void (*load)(void *state, const void *bytes, float *obs);
    /* A scripted, imperfect expert; `memory` is its own per episode, zeroed at reset. NULL: none. */
    size_t expert_size;
    void (*expert)(const void *state, void *memory, struct mf_rng *rng, const float *obs, float *action);
};

extern const struct mf_env *const mf_envs[]; /* ends with NULL; made from the file names */
int mf_env_find(const struct mf_env **env, const char *name, struct mf_err *err); /* MF_EUSAGE lists the names */
int mf_env_obs_dim(const struct mf_env *env);

#endif
