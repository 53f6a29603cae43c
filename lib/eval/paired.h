/* paired.h - compares two policies on the same trials: difference in success or return, confidence interval, test. */
#ifndef MF_EVAL_PAIRED_H
#define MF_EVAL_PAIRED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/moments.h"

enum mf_measure { MF_SUCCESS, MF_RETURN };
extern const char *const mf_measure_names[]; /* "success", "return" */

struct mf_paired {
    enum mf_measure of;
    int64_t n, won, lost;         /* trials; those in which this policy or the reference alone succeeded, or got more */
    double difference, low, high; /* this policy's success rate or mean return minus the reference's; 95 % interval */
    double p;                     /* two-sided p-value of no difference */
};

/* Counts of trials: both succeed, this policy alone, the reference alone, neither; at least one trial.
 * Interval: Newcombe, Statistics in Medicine 17 (1998) 2635, method 10: Wilson's intervals of both rates, combined by
 * their correlation. p: McNemar's test, exact: won ~ Binomial(won+lost, 1/2), twice its lesser tail, at most 1. */
struct mf_paired mf_pair(int64_t both, int64_t won, int64_t lost, int64_t neither);

struct mf_pairs {          /* trials of both policies, one after the other; zeroed: none */
    int64_t count[2][2];   /* [the reference succeeded][this policy succeeded] */
    int64_t higher, lower; /* returns */
    struct mf_moments difference;
};
void mf_pairs_add(struct mf_pairs *p, bool first_succeeded, double first_return, bool succeeded, double ret);
/* Success by mf_pair; returns by the paired t test and its interval. n = 0: of no trial. */
struct mf_paired mf_pairs_compare(const struct mf_pairs *p, enum mf_measure of);
/* Of a whole table, so that its rows can be compared: the return, if no trial of any row succeeded. */
enum mf_measure mf_measure_of(int64_t trials, int64_t succeeded);

/* Cells of a table, of `size` bytes each: "+0.031 [-0.002, +0.064]", "12:4" (won, lost), "0.077". */
void mf_paired_text(const struct mf_paired *p, char *difference, char *won, char *value, size_t size);
void mf_paired_json(json_t *to, const struct mf_paired *p); /* "difference", .. "p" added; NULL: as null */

#endif
