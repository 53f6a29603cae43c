/* rfc.h - the loss of reflow consistency (flow/reflow.h) beside PPO's, over chosen decisions of a minibatch.
 *
 *   L = coef sum_i m_i loss_i / max(1, sum m)       t ~ U(0, 1), a function of (seed, iter, minibatch, row)
 *
 * The mask m takes a decision as a whole:
 *
 *   success_only        its episode ended with a success; one that the round cuts did not
 *   success_chunk       its own chunk ended the episode by a termination with success
 *   advantage_positive  its advantage, as the policy's loss has it, is positive
 *   advantage_topk      the max(1, floor(topk n)) largest advantages of the minibatch's n decisions, and all that
 *                       equal the smallest of those
 *
 * Rows that are not live are in no minibatch. A row that was drawn c times (training.repeat_samples) is c decisions,
 * with one t.
 */
#ifndef MF_RL_RFC_H
#define MF_RL_RFC_H

#include "base/mem.h"
#include "flow/policy.h"

enum mf_rfc_mask { MF_RFC_SUCCESS_ONLY, MF_RFC_SUCCESS_CHUNK, MF_RFC_ADVANTAGE_POSITIVE, MF_RFC_ADVANTAGE_TOPK };

struct mf_rfc_rank { /* scratch of advantage_topk */
    float advantage;
    uint32_t count;
};
struct mf_rfc_rows {          /* of a minibatch's rows; NULL: without this loss */
    float *x, *target;        /* (n, D) */
    float *time, *weight;     /* (n) */
    float *loss;              /* (n) after the run */
    struct mf_rfc_rank *rank; /* (n) */
    double ratio;             /* mean of m */
};

struct mf_minibatch;
struct mf_rows;
struct mf_ppo_opts;
struct mf_ppo_stats;

void mf_rfc_place(struct mf_rfc_rows *q, size_t n, size_t D, struct mf_arena *a);
unsigned mf_rfc_needs(const struct mf_ppo_opts *o); /* enum mf_rows_extra */

/* weight (n): m_i times the row's count; returns their sum. */
double mf_rfc_choose(const struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o, float *weight);
/* Sets the rows of minibatch `turn` of a round. */
void mf_rfc_draw(struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o,
                 const struct mf_policy *p, int64_t turn);
void mf_rfc_measure(const struct mf_minibatch *b, const struct mf_ppo_opts *o, struct mf_ppo_stats *st);

#endif
