/* evals.h - a table of the results that mf-eval stored beside runs (eval.results, eval.json). */
#ifndef MF_PLOT_EVALS_H
#define MF_PLOT_EVALS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/moments.h"
#include "eval/paired.h"

struct mf_evals_row { /* one policy with one number of denoising steps, on the trials of some seeds */
    int seeds;
    json_t **result; /* (seeds), borrowed from `found`: rl/results.h */
};

struct mf_evals_found {
    json_t *result;
    int word, folder, at; /* index of the user's word that led to it; folders and results read before it */
    bool tuned;           /* the first policy in its file is fine-tuned */
    struct timespec time; /* of its file */
};

struct mf_evals { /* zeroed: empty */
    int folders, n_found, n;
    struct mf_evals_found *found; /* (n_found) */
    struct mf_evals_row *row;     /* (n) in order, once they are sorted */
};

/* Reads the results in *.json and *.jsonl of the folder, or of its subfolder `below`, as far as they are complete.
 * Skips other files, and links out of the folder. */
void mf_evals_read(struct mf_evals *e, int word, const char *dir, const char *below);
/* The same of one file in the folder. */
void mf_evals_read_file(struct mf_evals *e, int word, const char *dir, const char *name);
/* After all reads, makes the rows, ordered by word, clones before fine-tuned policies, folder in reading order, and
 * file time. Duplicates count once. */
void mf_evals_sort(struct mf_evals *e);
void mf_evals_release(struct mf_evals *e);

/* Adds a result, borrowed, of the row's policy; not one of trials that the row has. */
void mf_evals_row_add(struct mf_evals_row *to, json_t *result);
/* Are two results those of one policy with one number of denoising steps, maybe on the trials of other seeds? */
bool mf_evals_same_policy(const json_t *a, const json_t *b);

/* Have two results trials of one task: their successes can be compared? */
bool mf_evals_same_task(const json_t *a, const json_t *b);

int64_t mf_evals_trials(const struct mf_evals_row *r);
double mf_evals_sum(const struct mf_evals_row *r, const char *name); /* of "success_once", "return", .. over them */
/* Adds the returns of all trials of the row. */
void mf_evals_returns(const struct mf_evals_row *r, struct mf_moments *to);
/* Adds the trials that both rows have. */
void mf_evals_pair(const struct mf_evals_row *first, const struct mf_evals_row *r, struct mf_pairs *to);

/* Prints all rows, a table for each environment: success with Wilson's 95 % interval, returns with Student's, and the
 * comparison with the first row of as many denoising steps on common trials (paired.h), of success or, if no trial of
 * the table had one, of return. */
void mf_evals_put(const struct mf_evals *e, FILE *to);

#endif
