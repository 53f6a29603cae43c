/* minibatch.h - shuffled minibatches of a round, duplicates folded into weights, and their metrics. */
#ifndef MF_RL_MINIBATCH_H
#define MF_RL_MINIBATCH_H

#include "base/mem.h"
#include "rl/ppo.h"

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
    int width;

    const struct mf_ppo_opts *opts;
    uint32_t *deck;          /* the shuffled rows of the epoch, each live row repeat_samples times */
    size_t deck_size, dealt; /* dealt: rows of the deck already drawn */
    uint32_t *times;         /* (rows) how often a row is in the current minibatch */
    struct mf_arena arena;
};

/* For a round whose rows have `width` ratios each; borrows the options. */
int mf_minibatch_init(struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *opts, int width,
                      struct mf_err *err);
void mf_minibatch_release(struct mf_minibatch *b);                       /* safe on a zeroed one */
size_t mf_minibatch_most(size_t n_live, const struct mf_ppo_opts *opts); /* distinct rows in one, at most */
size_t mf_minibatch_memory(size_t n_live, const struct mf_ppo_opts *opts, int width); /* estimated bytes */
/* Normalises the rows' advantages if the options normalise them over the round. */
void mf_minibatch_normalize_round(struct mf_minibatch *b, struct mf_rows *r);
/* The order is a function of (seed, iter, epoch). */
void mf_minibatch_shuffle(struct mf_minibatch *b, const struct mf_rows *r, int64_t iter, int64_t epoch);
bool mf_minibatch_next(struct mf_minibatch *b, const struct mf_rows *r); /* false: the end of the epoch */

/* Add to the sums in st. */
void mf_minibatch_measure(const struct mf_minibatch *b, const struct mf_ppo_opts *o, struct mf_ppo_stats *st);
void mf_minibatch_value_loss(const struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o,
                             struct mf_ppo_stats *st);

#endif
