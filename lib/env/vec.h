/* vec.h - N environments side by side, one decision (a chunk of C actions) at a time: on threads, or in other
 * processes.
 *
 *   N environments  O flat observation  C executed actions  A action dim
 *
 * Each environment's random numbers are its own (seed, environment, episode),
 * so results do not depend on the number of threads. An environment stops
 * inside a chunk at its first end; the rest of the chunk is not executed.
 */
#ifndef MF_ENV_VEC_H
#define MF_ENV_VEC_H

#include "env/env.h"

struct mf_vec;

/* An observer of the environments with number (first_env + i) below n; 0: none. */
struct mf_watch {
    int n;
    void *self;
    void (*state)(void *self, int env, void *state); /* for a built-in environment, on the thread that steps it */
    /* for an environment in another process, which renders: rgb (height, width, 3). */
    int (*picture)(void *self, int env, int width, int height, const uint8_t *rgb, struct mf_err *err);
};

struct mf_vec_opts {
    const struct mf_env *env;
    struct mf_layout obs; /* observed keys, from mf_env_layout; n 0: the low-dimensional keys */
    int N, threads;       /* threads 0: one per online core */
    int first_env;        /* index of environment 0 in the random streams */
    int group;            /* environments that start episode k from the same state, that of the first; 0, 1: none */
    int max_steps;        /* 0: the environment's default */
    int trail;            /* number of observations to keep from within a decision, before the last: n_obs_steps - 1 */
    int shift; /* pixels by which pictures are moved at random, each observation by a draw of its own; 0: as they are */
    bool turn; /* color pictures of a server by 180 degrees */
    struct mf_affine state; /* of the state in the prompts of an environment with tokens; scale NULL: they hold none */
    float expert_error;     /* scale of the expert's errors, as env->expert has it */
    uint64_t seed;
    enum mf_purpose reset_purpose; /* MF_RNG_RESET, or MF_RNG_EVAL_RESET */
    struct mf_watch watch;         /* sees every reset and control step */
};

/* The result of one decision; arrays are owned by the vec and valid until the next call. */
struct mf_decision {
    const float *rewards;                  /* (N, C): 0 after the chunk's end */
    const int32_t *n_exec;                 /* (N) control steps really executed */
    const uint8_t *terminated, *truncated; /* (N) */
    const uint8_t *fresh;                  /* (N) obs is the first of an episode */
    /* (N) the environment's process died: its episode is discarded without an end; fresh is set, n_exec is 0. */
    const uint8_t *lost;
    const float *final_obs; /* (N, O) the true last observation where ended */
    const float *obs;       /* (N, O) the next observation (after a reset where ended) */
    /* (N, trail, O), n_trail (N) of them: after the control steps before the last one executed, in order, at most
     * `trail`. Environments in other processes have none. */
    const float *trail;
    const int32_t *n_trail;
    /* for the episodes that ended in this decision (terminated|truncated): */
    const float *episode_return;    /* (N) */
    const int32_t *episode_length;  /* (N) control steps */
    const uint8_t *episode_success; /* (N) any success within it */
    const uint8_t *step_success;    /* (N) success at the last control step executed */
};

int mf_vec_new(struct mf_vec **v, const struct mf_vec_opts *opts, struct mf_err *err);
void mf_vec_free(struct mf_vec *v);
/* Starts episode `episode[n]` (NULL: 0) in every environment: obs (N, O). A vec starts with this or with a load. */
int mf_vec_reset(struct mf_vec *v, const int32_t *episode, const float **obs, struct mf_err *err);
/* actions (N, C, A). With `autoreset`, ended environments start their next episode, now or (some servers) with the next
 * decision, which then executes nothing (n_exec 0; the caller sets valid 0). Without, they idle. A lost episode is
 * replaced by the next one with `autoreset`, otherwise restarted. NaN in an action, an observation or a reward:
 * MF_EMATH with the environment's index. */
int mf_vec_step(struct mf_vec *v, const float *actions, int C, bool autoreset, struct mf_decision *d,
                struct mf_err *err);
/* The scripted expert's next action for every environment: actions (N, A); 0 after an end. Call it once per control
 * step, as the expert has state. MF_EUSAGE: no expert. */
int mf_vec_expert(struct mf_vec *v, float *actions, struct mf_err *err);
const int32_t *mf_vec_episode(const struct mf_vec *v); /* (N) which episode each is in */
const int32_t *mf_vec_clock(const struct mf_vec *v);   /* (N) control steps into it */
const int32_t *mf_vec_task(const struct mf_vec *v);    /* (N) tasks of their episodes; NULL: no language */
const struct mf_layout *mf_vec_layout(const struct mf_vec *v);

/* All environments, episode counters and running returns, malloc'ed. load needs the same env and N. *exact is false if
 * the environments cannot be saved: then each starts its next episode. */
int mf_vec_save(struct mf_vec *v, void **bytes, size_t *size, struct mf_err *err);
int mf_vec_load(struct mf_vec *v, const void *bytes, size_t size, const float **obs, bool *exact, struct mf_err *err);

#endif
