/* env.h - the interface of an environment: functions on its state.
 *
 * To add one, write lib/env/env_NAME.c that defines `mf_env_NAME`. Nothing else changes. An environment does not log,
 * has no globals, and does not reset itself: after the last step its observation is the true last one. All instances of
 * a process share one `model` (read only, as several threads step at once).
 *
 * An environment in another process has a struct mf_env, too, described by its server (served.h): names and shapes, but
 * no functions.
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
    bool terminated; /* the task ended: no bootstrap */
    bool truncated;  /* the time limit ended it: bootstrap from the last observation */
    bool success;
};

enum { MF_SUITES = 8 };
struct mf_suite { /* n tasks from the first on */
    const char *name;
    int first, n;
};

struct mf_words;

struct mf_env {
    const char *name;
    struct mf_obs obs[MF_OBS_KEYS]; /* all observations; ends with an empty name */
    int action_dim;                 /* actions are in [-1, 1]; the environment clips */
    int max_steps;                  /* control steps of an episode, unless env.max_steps says otherwise */
    double control_hz;
    const char *robomimic_name; /* env_args' env_name in demonstration files: "Lift" */
    const char *likes;          /* "key=value ..": defaults for a fresh policy in this environment; NULL: none */

    /* An environment with language: its tasks, of which an episode has one. Episodes take the tasks of a suite in turn,
     * those of the first suite unless env.suite says otherwise. text NULL: one task, without words. */
    struct {
        struct mf_suite suite[MF_SUITES];      /* ends with an empty name */
        const char *const *text;               /* ends with NULL */
        void (*assign)(void *state, int task); /* the task of the next resets */
        int (*task)(const void *state);
    } language;

    /* The model, shared by all instances; file: the member below, where by_file. NULL: no model. */
    bool by_file; /* the model is a file that is not built in: env.model */
    int (*open)(void **model, const char *file, struct mf_err *err);
    void (*close)(void *model);
    int (*init)(void **state, const void *model, int max_steps, struct mf_err *err);
    void (*release)(void *state);
    void (*reset)(void *state, struct mf_rng *rng);
    struct mf_env_step (*step)(void *state, const float *action);
    /* obs[key] of the current state; `as` is that key as requested (number of points). Called for requested keys only;
     * must not affect later steps. NaN: the simulation diverged. */
    void (*observe)(void *state, int key, const struct mf_obs *as, float *to);
    /* Draws the keys of l that are pictures (mf_obs_is_picture) into the observation obs (l->dim); a uint8 picture as
     * its bytes. *painter is private to the environment, NULL before the first call, passed by one thread at a time and
     * with one l only, and released by end_paint. As observe, it must not affect later steps, and depends on the state
     * alone. Zeros: the simulation diverged. NULL: pictures, if any, are keys of observe. */
    int (*picture)(void *state, void **painter, const struct mf_layout *l, float *obs, struct mf_err *err);
    /* The complete state, so that steps after load are bit-equal. */
    size_t (*state_size)(const void *state);
    void (*save)(const void *state, void *bytes);
    void (*load)(void *state, const void *bytes); /* must accept any bytes: they may come from another process */
    /* A scripted, imperfect expert; `memory` is its state, zeroed at reset; obs: the low-dimensional keys. error scales
     * the errors of its sensor: 1 is its own miscalibration, 0 none. NULL: no expert. */
    size_t expert_size;
    void (*expert)(const void *state, void *memory, float error, struct mf_rng *rng, const float *obs, float *action);

    /* Renders the current state for people: rgb (height, width, 3), top row first. *painter is as that of `picture`,
     * but another, for one width and height. NULL: the environment has no images. */
    int (*paint)(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err);
    void (*end_paint)(void *painter);

    const char *file;       /* env.model; NULL: not given */
    struct mf_words *words; /* what its observation "tokens" is made of; NULL: it has none */
    bool copied;            /* by mf_env_own */

    struct mf_served *served; /* its server in another process, instead of the functions; NULL: built in */
};

enum { MF_POINTS_MAX = 4096, MF_SIDE_MIN = 8, MF_SIDE_MAX = 1024 }; /* points of a cloud; side of a picture */

/* The env.* keys. */
struct mf_env_opts {
    const char *name, *command, *address; /* "exec" and "remote" are environments that a server describes */
    const char *model;                    /* the file of a model that is not built in; NULL: none */
    int64_t num_points;                   /* of a point cloud; 0: as in the checkpoint or the environment */
    int64_t image_size;                   /* side of a picture, pixels; 0: likewise */
    int renderer;                         /* enum mf_renderer, opengl.h, of all images that this process draws */
    int64_t workers, restarts;            /* exec: processes, 0: one per core; maximum restarts of each */
    double timeout;                       /* timeout of a request, s */
    int64_t policy_side;                  /* side of the color pictures that the policy reads; 0: as they are */
    const char *suite;                    /* of its tasks; NULL: the first */
    const char *tokenizer;                /* SentencePiece model of the observation "tokens"; NULL: without it */
    int64_t prompt_length;                /* its ids; 0: as in the checkpoint, else MF_PROMPT_LENGTH */
    void (*warn)(const char *text);       /* called for each restart; NULL: none */
};
extern const struct mf_bind mf_env_binds[];

/* A copy that mf_env_close frees, to be changed before the environment is used; *env itself if it is one. */
struct mf_env *mf_env_own(const struct mf_env **env);
/* Opens a built-in environment, or (mf_env_open) one that a server describes; o->model must outlive it. MF_EUSAGE lists
 * the names. */
int mf_env_open_built_in(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
int mf_env_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
/* The environment for the checkpoint or file `path`, which was made in `made_in` ("": unknown). named: the environment
 * of o, with a warning if it differs from made_in; otherwise made_in. */
int mf_env_open_for(const struct mf_env **env, struct mf_env_opts *o, bool named, const char *path, const char *made_in,
                    struct mf_err *err);
/* Logs that warning if env differs from made_in. */
void mf_env_compare(const struct mf_env *env, const struct mf_env_opts *o, const char *path, const char *made_in);
void mf_env_close(const struct mf_env *env); /* of mf_env_open; ends its servers; NULL is fine */

extern const struct mf_env *const mf_envs[]; /* ends with NULL; made from the file names */
int mf_env_find(const struct mf_env **env, const char *name, struct mf_err *err); /* MF_EUSAGE lists the names */
const struct mf_env *
mf_env_robomimic(const char *name); /* the environment with this robomimic name; NULL: none built in */

/* The layout of the named keys, in that order. n 0: the keys of `like`, or if that is NULL all low-dimensional ones (of
 * one dimension). Point clouds have as many points as in `like`, drawn pictures as many pixels. MF_EUSAGE lists the
 * available keys. */
int mf_env_layout(const struct mf_env *env, int n, const char (*names)[64], const struct mf_layout *like,
                  struct mf_layout *l, struct mf_err *err);
/* Sets the number of points of the layout's clouds, at most MF_POINTS_MAX; 0: unchanged. */
void mf_env_points(const struct mf_env *env, struct mf_layout *l, int points);
/* Sets the side of the square pictures that the environment draws, MF_SIDE_MIN to MF_SIDE_MAX; 0: unchanged. */
void mf_env_side(const struct mf_env *env, struct mf_layout *l, int side);
/* Does the environment draw pictures of l, by its `picture`? */
bool mf_env_draws(const struct mf_env *env, const struct mf_layout *l);
int32_t mf_env_count(int32_t saved);                        /* a step count from saved bytes, clamped to 0..2^30 */
int mf_env_key(const struct mf_env *env, const char *name); /* index in obs; -1: no such key */
/* MF_EUSAGE if the environment does not have this observation with this type and shape. The number of points of a cloud
 * and the side of a picture may differ: a built-in environment has 1 to MF_POINTS_MAX, and draws MF_SIDE_MIN to
 * MF_SIDE_MAX, to which a server's color pictures are resized. Checked before observing, since a layout may come from
 * another process. */
int mf_env_shows(const struct mf_env *env, const struct mf_obs *as, struct mf_err *err);
/* obs (l->dim), but for the pictures that the environment draws, which are up to its `picture`, and tokens, which are
 * up to mf_words_put. */
void mf_env_observe(const struct mf_env *env, void *state, const struct mf_layout *l, float *obs);

#endif
