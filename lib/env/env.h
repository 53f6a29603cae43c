/* env.h - what an environment is: functions on a state of its own.
 *
 * To add one, write lib/env/env_NAME.c that defines `mf_env_NAME`. Nothing
 * else changes. An environment does not log, hold globals, or reset itself:
 * after the last step its observation is the true last one. All instances of
 * a process share one `model` (read only: several threads step at once).
 *
 * What another process steps has a struct mf_env too, as its server describes
 * it (served.h): names, shapes, no functions.
 */
#ifndef MF_ENV_ENV_H
#define MF_ENV_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/layout.h"
#include "base/rng.h"
#include "conf/conf.h"

struct mf_env_step {
    float reward;
    bool terminated; /* the task ended: no value beyond */
    bool truncated;  /* only the clock ended it: the value beyond still counts */
    bool success;
};

struct mf_env {
    const char *name;
    struct mf_obs obs[MF_OBS_KEYS]; /* all that can be observed; ends with an empty name */
    int action_dim;                 /* actions are in [-1, 1]; the environment clips */
    int max_steps;                  /* control steps of an episode, unless env.max_steps says otherwise */
    double control_hz;
    const char *robomimic_name; /* env_args' env_name in demonstration files: "Lift" */
    const char *likes;          /* "key=value ..": defaults for a policy that begins to learn in it; NULL: none */

    int (*open)(void **model, struct mf_err *err); /* shared by all instances; NULL where there is none */
    void (*close)(void *model);
    int (*init)(void **state, const void *model, int max_steps, struct mf_err *err);
    void (*release)(void *state);
    void (*reset)(void *state, struct mf_rng *rng);
    struct mf_env_step (*step)(void *state, const float *action);
    /* obs[key] of the state as it is: `as` is that key as it was asked for (how many points). It is called for the keys
     * that somebody wants to see, and changes no step to come. NaN: the simulation broke down. */
    void (*observe)(void *state, int key, const struct mf_obs *as, float *to);
    /* Everything that determines the future, so that steps after load are bit-equal. */
    size_t (*state_size)(const void *state);
    void (*save)(const void *state, void *bytes);
    void (*load)(void *state, const void *bytes); /* any bytes: they may come from another process */
    /* A scripted, imperfect expert; `memory` is its own per episode, zeroed at reset; obs: the low-dimensional keys.
     * NULL: none. */
    size_t expert_size;
    void (*expert)(const void *state, void *memory, struct mf_rng *rng, const float *obs, float *action);

    /* Draw the state as it is: rgb (height, width, 3), rows from the top. *painter is the environment's own, NULL
     * before the first picture, and end_paint gives it back; one thread has it. NULL: there are no pictures of it. */
    int (*paint)(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err);
    void (*end_paint)(void *painter);

    struct mf_served *served; /* a server of it in another process, instead of all the functions; NULL: built in */
};

enum { MF_POINTS_MAX = 4096 };

/* The env.* keys. */
struct mf_env_opts {
    const char *name, *command, *address; /* "exec" and "remote" are environments that a server describes */
    int64_t num_points;                   /* of a point cloud; 0: as many as the checkpoint or the environment says */
    int64_t workers, restarts;            /* exec: processes, 0: one per core; how often each may be restarted */
    double timeout;                       /* s that an answer may take */
    void (*warn)(const char *text);       /* told of a restart; NULL: nobody */
};
extern const struct mf_bind mf_env_binds[];

/* A built-in environment, or what a server describes. MF_EUSAGE lists the names. */
int mf_env_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
/* The one for what `path` says was made in `made_in` ("": nobody knows): o's own where it was named, with a warning
 * where that is another; else made_in. */
int mf_env_open_for(const struct mf_env **env, struct mf_env_opts *o, bool named, const char *path, const char *made_in,
                    struct mf_err *err);
/* That warning, where env is another. */
void mf_env_compare(const struct mf_env *env, const struct mf_env_opts *o, const char *path, const char *made_in);
void mf_env_close(const struct mf_env *env); /* ends its servers; NULL is fine */

extern const struct mf_env *const mf_envs[]; /* ends with NULL; made from the file names */
int mf_env_find(const struct mf_env **env, const char *name, struct mf_err *err); /* MF_EUSAGE lists the names */
const struct mf_env *mf_env_robomimic(const char *name); /* which demonstrations call so; NULL: none that is built in */

/* The layout of the named keys, in that order; n 0: of those that `like` has; NULL: of all low-dimensional ones (of one
 * dimension). Clouds have the number of points of those of `like`. MF_EUSAGE lists what there is. */
int mf_env_layout(const struct mf_env *env, int n, const char (*names)[64], const struct mf_layout *like,
                  struct mf_layout *l, struct mf_err *err);
/* The clouds of the layout get so many points, at most MF_POINTS_MAX; 0: they keep theirs. */
void mf_env_points(const struct mf_env *env, struct mf_layout *l, int points);
int32_t mf_env_count(int32_t saved); /* a count of steps out of saved bytes, so that it can go on: 0 to 2^30 */
int mf_env_key(const struct mf_env *env, const char *name); /* its place in obs; -1: none of that name */
/* MF_EUSAGE where the environment does not show this: its own key, type and shape, but for the points of a cloud, of
 * which a built-in one shows 1 to MF_POINTS_MAX. Asked before anything is observed: whoever names a layout may be
 * another process. */
int mf_env_shows(const struct mf_env *env, const struct mf_obs *as, struct mf_err *err);
void mf_env_observe(const struct mf_env *env, void *state, const struct mf_layout *l, float *obs); /* (l->dim) */

#endif
