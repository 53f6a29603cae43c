/* stepper.h - who steps the environments of a vec: threads of this process, or servers in others. Inside lib/env and
 * for whoever serves environments.
 *
 * A stepper fills slots, one per environment, and keeps no books: episodes,
 * returns and clocks are the vec's.
 *
 *   N environments  O floats of an observation  C actions of a decision  A action dim
 */
#ifndef MF_ENV_STEPPER_H
#define MF_ENV_STEPPER_H

#include "env/vec.h"

struct mf_slots {
    struct mf_vec_opts o; /* as the vec was asked for, with max_steps and layout resolved */
    int N, O, A, C;       /* C: of the decision at hand */
    /* what the stepper reads */
    int32_t *episode, *clock; /* (N) the episode that each is in, control steps into it */
    uint8_t *idle;            /* (N) its episode is over and no other will begin: leave it alone */
    /* what it fills */
    float *obs;                                     /* (N, O) what comes next */
    float *trail;                                   /* (N, o.trail, O) see struct mf_decision */
    int32_t *n_trail;                               /* (N) */
    float *final_obs;                               /* (N, O) the true last observation, where an episode ended */
    float *rewards;                                 /* (N, C) 0 after n_exec */
    uint8_t *success;                               /* (N, C) likewise */
    int32_t *n_exec;                                /* (N) control steps executed: the decision stops at an end */
    uint8_t *terminated, *truncated, *fresh, *lost; /* (N) fresh: obs begins an episode. lost: see struct mf_decision */
    size_t room;                                    /* entries that rewards and success have */
};

int mf_slots_init(struct mf_slots *r, const struct mf_vec_opts *o, struct mf_err *err);
int mf_slots_chunk(struct mf_slots *r, int C, struct mf_err *err); /* make it C wide, all of it zero but obs */
void mf_slots_release(struct mf_slots *r);                         /* safe on a zeroed one */

struct mf_stepper {
    const struct mf_stepper_kind {
        /* Begin episode[n] where which[n] (NULL: everywhere): obs. */
        int (*reset)(void *self, struct mf_slots *r, const uint8_t *which, struct mf_err *err);
        /* One decision: actions (N, C, A). Where an episode ends and `autoreset`, the next one begins, now or with the
         * next decision (then n_exec is 0 there, and fresh). */
        int (*step)(void *self, struct mf_slots *r, const float *actions, bool autoreset, struct mf_err *err);
        int (*expert)(void *self, const struct mf_slots *r, float *actions, struct mf_err *err); /* as mf_vec_expert */
        /* Each one's state, malloc'ed: (N). A stepper that has none leaves them all NULL. */
        int (*save)(void *self, const struct mf_slots *r, void **state, size_t *size, struct mf_err *err);
        int (*load)(void *self, struct mf_slots *r, const void *const *state, const size_t *size, struct mf_err *err);
        void (*free)(void *self);
    } * kind;
    void *self;
};

int mf_threads_new(struct mf_stepper *s, const struct mf_slots *r, struct mf_err *err); /* a built-in environment's */
int mf_served_new(struct mf_stepper *s, const struct mf_slots *r, struct mf_err *err);  /* of env->served */

#endif
