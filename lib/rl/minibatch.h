/* minibatch.h - shuffled minibatches of a round, duplicates folded into weights, and their metrics. */
#ifndef MF_RL_MINIBATCH_H
#define MF_RL_MINIBATCH_H

#include "base/mem.h"
#include "rl/ppo.h"
#include "rl/rfc.h"

struct mf_minibatch {
    size_t n;                                         /* distinct rows in it */
    uint32_t *row;                                    /* (n) their indices, ascending */
    uint32_t *count;                                  /* (n) how often each was drawn (training.repeat_samples) */
    float *advantage, *value_weight, *entropy_weight; /* (n) */
    float *weight;                                    /* (n, width); 0: masked */
    float *kl_weight;                                 /* (n, width) for the KL divergence that target_kl limits */
    float *correction;                                /* (n, width) p/b, a factor of the weight; 1 in PPO */
    float *new_logp, *old_logp;                       /* (n, width) after the run */
    float *value, *entropy;                           /* (n) after the run */
    struct mf_rfc_rows rfc;                           /* of training.rfc_coef */
    int width;
};

enum { MF_MINIBATCHES = 2 }; /* at once, at most: one is computed while the other is prepared or measured */

struct mf_minibatches { /* of a round */
    const struct mf_ppo_opts *opts;
    int width;
    struct mf_minibatch set[MF_MINIBATCHES]; /* used in turn */
    int sets, turn, D;
    uint32_t *deck;          /* the shuffled rows of the epoch, each live row repeat_samples times */
    size_t deck_size, dealt; /* dealt: rows of the deck already drawn */
    uint32_t *times;         /* (rows) how often a row is in the current minibatch */
    struct mf_arena arena;
};

/* `sets` minibatches at once, of a round whose rows have `width` ratios each; borrows the options. */
int mf_minibatches_init(struct mf_minibatches *m, const struct mf_rows *r, const struct mf_ppo_opts *opts, int width,
                        int sets, struct mf_err *err);
void mf_minibatches_release(struct mf_minibatches *m);                   /* safe on a zeroed one */
size_t mf_minibatch_most(size_t n_live, const struct mf_ppo_opts *opts); /* distinct rows in one, at most */
size_t mf_minibatches_memory(size_t n_live, int D, const struct mf_ppo_opts *opts, int width,
                             int sets); /* estimated bytes */
/* Normalises the rows' advantages if the options normalise them over the round. */
void mf_minibatches_normalize_round(struct mf_minibatches *m, struct mf_rows *r);
/* The order is a function of (seed, iter, epoch). */
void mf_minibatches_shuffle(struct mf_minibatches *m, const struct mf_rows *r, int64_t iter, int64_t epoch);
/* Valid until `sets` more are dealt; NULL: the end of the epoch. */
struct mf_minibatch *mf_minibatches_next(struct mf_minibatches *m, const struct mf_rows *r);

/* Add to the sums in st. */
void mf_minibatch_measure(const struct mf_minibatch *b, const struct mf_ppo_opts *o, struct mf_ppo_stats *st);
void mf_minibatch_value_loss(const struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o,
                             struct mf_ppo_stats *st);

#endif
