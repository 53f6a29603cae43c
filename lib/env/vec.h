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

/* Who sees environments while they are stepped: those whose number (first_env + n) is below n; 0: nobody looks. */
struct mf_watch {
    int n;
    void *self;
    void (*state)(void *self, int env, void *state); /* a built-in one, by the thread that steps it */
    /* One in another process, which renders: rgb (height, width, 3). */
    int (*picture)(void *self, int env, int width, int height, const uint8_t *rgb, struct mf_err *err);
};

struct mf_vec_opts {
    const struct mf_env *env;
    struct mf_layout obs; /* what is seen, of mf_env_layout; n 0: the low-dimensional keys */
    int N, threads;       /* threads 0: one per online core */
    int first_env;        /* index of environment 0 in the random streams */
    int max_steps;        /* 0: the environment's own */
    int trail;            /* observations wanted from within a decision, before its last: n_obs_steps - 1 */
    uint64_t seed;
    enum mf_purpose reset_purpose; /* MF_RNG_RESET, or MF_RNG_EVAL_RESET */
    struct mf_watch watch;         /* sees every reset and control step */
};

/* What one decision did; arrays are the vec's, valid until the next call. */
struct mf_decision {
    const float *rewards;                  /* (N, C): 0 after the chunk's end */
    const int32_t *n_exec;                 /* (N) control steps really executed */
    const uint8_t *terminated, *truncated; /* (N) */
    const uint8_t *fresh;                  /* (N) obs is the first of an episode */
    /* (N) the environment's process died: its episode so far is void, no end of it will come; fresh, n_exec is 0. */
    const uint8_t *lost;
    const float *final_obs; /* (N, O) the true last observation where ended */
    const float *obs;       /* (N, O) what the policy sees next (after a reset where ended) */
    /* (N, trail, O), n_trail (N) of them: after the control steps before the last one executed, in order, at most
     * `trail`. Environments in other processes have none. */
    const float *trail;
    const int32_t *n_trail;
    /* of the episodes that ended in this decision, where terminated|truncated: */
    const float *episode_return;    /* (N) */
    const int32_t *episode_length;  /* (N) control steps */
    const uint8_t *episode_success; /* (N) any success within it */
    const uint8_t *step_success;    /* (N) success at the last control step executed */
};

int mf_vec_new(struct mf_vec **v, const struct mf_vec_opts *opts, struct mf_err *err);
void mf_vec_free(struct mf_vec *v);
/* Begin episode `episode[n]` (NULL: 0) in every environment: obs (N, O). A vec begins with this, or with a load. */
int mf_vec_reset(struct mf_vec *v, const int32_t *episode, const float **obs, struct mf_err *err);
/* actions (N, C, A). Ended environments are reset to their next episode when `autoreset`, now or, where a server does
 * it so, by the next decision, which executes nothing (n_exec 0, valid 0 by the caller); else they idle, likewise.
 * A lost episode begins again as the next one when `autoreset`, else as itself. NaN in an action, an observation or a
 * reward: MF_EMATH with the environment's index. */
int mf_vec_step(struct mf_vec *v, const float *actions, int C, bool autoreset, struct mf_decision *d,
                struct mf_err *err);
/* The scripted expert's next action for every environment: actions (N, A); 0 where it ended. Ask once per control
 * step: the expert remembers. MF_EUSAGE where there is none. */
int mf_vec_expert(struct mf_vec *v, float *actions, struct mf_err *err);
const int32_t *mf_vec_episode(const struct mf_vec *v); /* (N) which episode each is in */
const int32_t *mf_vec_clock(const struct mf_vec *v);   /* (N) control steps into it */
const struct mf_layout *mf_vec_layout(const struct mf_vec *v);

/* All environments, episode counters, running returns, malloc'ed. load needs the same env and N; *exact is false where
 * the environments cannot be saved: then each begins its next episode. */
int mf_vec_save(struct mf_vec *v, void **bytes, size_t *size, struct mf_err *err);
int mf_vec_load(struct mf_vec *v, const void *bytes, size_t size, const float **obs, bool *exact, struct mf_err *err);

#endif
