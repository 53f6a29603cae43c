/* paired.h - two policies on the same trials: what their difference in success is worth. */
#ifndef MF_EVAL_PAIRED_H
#define MF_EVAL_PAIRED_H

#include <stdint.h>

struct mf_paired {
    int64_t n, won, lost;         /* trials; those where this policy alone succeeded, and the reference alone */
    double difference, low, high; /* of the two shares, this one's minus the reference's, with its 95 % interval */
    double p;                     /* that they differ as much or more by chance, two-sided */
};

/* Counts of trials: both succeed, this policy alone, the reference alone, neither; at least one trial.
 * Interval: Newcombe, Statistics in Medicine 17 (1998) 2635, method 10: Wilson's intervals of both shares, combined by
 * their correlation. p: McNemar's test, exact: won ~ Binomial(won+lost, 1/2), twice its lesser tail, at most 1. */
struct mf_paired mf_pair(int64_t both, int64_t won, int64_t lost, int64_t neither);

#endif
