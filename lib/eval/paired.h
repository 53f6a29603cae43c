/* paired.h - compares two policies on the same trials: difference in success, confidence interval, test. */
#ifndef MF_EVAL_PAIRED_H
#define MF_EVAL_PAIRED_H

#include <jansson.h>
#include <stdint.h>

struct mf_paired {
    int64_t n, won, lost;         /* trials; successes of this policy alone, of the reference alone */
    double difference, low, high; /* this policy's success rate minus the reference's, with its 95 % interval */
    double p;                     /* two-sided p-value of no difference */
};

/* Counts of trials: both succeed, this policy alone, the reference alone, neither; at least one trial.
 * Interval: Newcombe, Statistics in Medicine 17 (1998) 2635, method 10: Wilson's intervals of both rates, combined by
 * their correlation. p: McNemar's test, exact: won ~ Binomial(won+lost, 1/2), twice its lesser tail, at most 1. */
struct mf_paired mf_pair(int64_t both, int64_t won, int64_t lost, int64_t neither);

/* Cells of a table, of `size` bytes each: "+0.031 [-0.002, +0.064]", "12:4" (won, lost), "0.077". */
void mf_paired_text(const struct mf_paired *p, char *difference, char *won, char *value, size_t size);
void mf_paired_json(json_t *to, const struct mf_paired *p); /* "difference", .. "p" added; NULL: as null */

#endif
