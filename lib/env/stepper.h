/* stepper.h - steps the environments of a vec: by threads of this process, or by servers in others. For lib/env and
 * servers of environments.
 *
 * A stepper fills slots, one per environment. Episodes, returns and clocks are kept by the vec.
 *
 *   N environments  O floats of an observation  C actions of a decision  A action dim
 */
#ifndef MF_ENV_STEPPER_H
#define MF_ENV_STEPPER_H

#include "env/vec.h"

struct mf_slots {
    struct mf_vec_opts o; /* the options of the vec, with max_steps and layout resolved */
    int N, O, A, C;       /* C: of the current decision */
    /* input of the stepper */
    int32_t *episode, *clock; /* (N) the episode that each is in, control steps into it */
    int32_t *task;            /* (N) its task, set by the stepper of an environment with language */
    uint8_t *idle;            /* (N) its episode is over and no other will start: not stepped */
    /* output of the stepper */
    float *obs;       /* (N, O) next observation */
    float *trail;     /* (N, o.trail, O) see struct mf_decision */
    int32_t *n_trail; /* (N) */
    float *final_obs; /* (N, O) the true last observation, where an episode ended */
    float *rewards;   /* (N, C) 0 after n_exec */
    uint8_t *success; /* (N, C) likewise */
    int32_t *n_exec;  /* (N) executed control steps: the decision stops at an episode's end */
    uint8_t *terminated, *truncated, *fresh, *lost; /* (N) fresh: obs begins an episode. lost: see struct mf_decision */
    size_t room;                                    /* allocated entries of rewards and success */
};

int mf_slots_init(struct mf_slots *r, const struct mf_vec_opts *o, struct mf_err *err);
int mf_slots_chunk(struct mf_slots *r, int C, struct mf_err *err); /* resize to C and zero all but obs */
/* The random numbers of the initial state of environment n's episode: those of the first one of its group. */
struct mf_rng mf_slots_reset_rng(const struct mf_slots *r, int n, int32_t episode);
/* The task of that episode: the suite's tasks in turn, the same for a group. */
int mf_slots_task(const struct mf_slots *r, int n, int32_t episode);
void mf_slots_release(struct mf_slots *r); /* safe on a zeroed one */

struct mf_stepper {
    const struct mf_stepper_kind {
        /* Starts episode[n] where which[n] (NULL: everywhere) and sets obs. */
        int (*reset)(void *self, struct mf_slots *r, const uint8_t *which, struct mf_err *err);
        /* One decision: actions (N, C, A). With `autoreset`, an ended episode is followed by the next one, now or with
         * the next decision (then with n_exec 0 and fresh). */
        int (*step)(void *self, struct mf_slots *r, const float *actions, bool autoreset, struct mf_err *err);
        int (*expert)(void *self, const struct mf_slots *r, float *actions, struct mf_err *err); /* as mf_vec_expert */
        /* The state of each, malloc'ed: (N). All NULL if states cannot be saved. */
        int (*save)(void *self, const struct mf_slots *r, void **state, size_t *size, struct mf_err *err);
        int (*load)(void *self, struct mf_slots *r, const void *const *state, const size_t *size, struct mf_err *err);
        void (*free)(void *self);
    } * kind;
    void *self;
};

int mf_threads_new(struct mf_stepper *s, const struct mf_slots *r, struct mf_err *err); /* a built-in environment's */
int mf_served_new(struct mf_stepper *s, const struct mf_slots *r, struct mf_err *err);  /* of env->served */

#endif
