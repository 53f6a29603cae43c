/* ranks_priv.h - the ranks of one learner and their messages. Inside lib/ranks. */
#ifndef MF_RANKS_RANKS_PRIV_H
#define MF_RANKS_RANKS_PRIV_H

#include "ranks/ranks.h"
#include "ranks/transport.h"

enum { MF_RANKS_HOST = 64 };

struct mf_ranks_standing { /* of a rank, where all meet */
    int32_t signal, code;
};

struct mf_ranks {
    int n, me;
    double patience;
    const struct mf_transport *t;
    void *self;
    int *peer; /* by message */
    bool *ended;
    size_t begun, room; /* messages */
    int64_t minibatches;
    struct mf_ranks_standing *state; /* by rank */
    size_t *each;                    /* 0, 1, .. n: one item of each rank */
    char (*host)[MF_RANKS_HOST];
};

enum mf_ranks_wait {
    MF_RANKS_FOR_DATA, /* which is on its way: polls all the time */
    MF_RANKS_FOR_OTHERS,
    MF_RANKS_FOR_FILES,  /* that each reads */
    MF_RANKS_FOR_RANK_0, /* as long as it takes */
};

/* Begins to gather an array (ranks.h), which is there when mf_ranks_wait has returned. */
int mf_ranks_begin_gather(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err);
/* Until all messages that have begun have ended. */
int mf_ranks_wait(struct mf_ranks *r, enum mf_ranks_wait why, struct mf_err *err);
/* Both. */
int mf_ranks_gather_for(struct mf_ranks *r, void *array, size_t item, const size_t *first, enum mf_ranks_wait why,
                        struct mf_err *err);

#endif
