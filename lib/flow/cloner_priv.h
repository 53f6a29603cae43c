/* cloner_priv.h - what the rows of a minibatch and the networks that learn them share. */
#ifndef MF_FLOW_CLONER_PRIV_H
#define MF_FLOW_CLONER_PRIV_H

#include "base/mem.h"
#include "flow/cloner.h"

/* A velocity of a batch: the student's, with its loss, or the teacher's. */
struct mf_cloner_net {
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_val obs, x, t, d, v, target, weight, key, loss;
};

/* Times here, in cloner.c and in cloner_draw.c are noise0's: 0 is noise, 1 is data. They are converted for networks of
 * the other convention. */
struct mf_cloner {
    struct mf_policy *p;
    struct mf_engine *e;
    enum mf_clone_loss kind;
    enum mf_time_sampling sampling;
    uint64_t seed;
    float dropout;
    struct mf_params teacher;            /* the policy's table with the teacher's values */
    struct mf_cloner_net student, other; /* other: the teacher; not built for the flow loss */
    struct mf_arena arena;
    size_t room;
    float *x, *v, *target, *x2;             /* (n, D): x_t, a teacher's velocity, the target, a teacher's point */
    float *t, *d, *weight, *loss, *t2, *d2; /* (n); t2, d2: the teacher's time and step */
    float *key;                             /* (n) bits of dropout's keys */
    struct {
        int64_t step;
        size_t n;
    } started; /* the batch that is under way */
    /* of the batch that was drawn last */
    bool drawn; /* and not started yet */
    int64_t step;
    size_t n, taught; /* rows; the last `taught` of them have a teacher */
    const uint32_t *index;
    const float *actions;
};

#endif
