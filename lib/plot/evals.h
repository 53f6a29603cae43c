/* evals.h - what mf-eval left beside runs (eval.results, eval.json), as a table of a page. */
#ifndef MF_PLOT_EVALS_H
#define MF_PLOT_EVALS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

struct mf_evals_row { /* one policy with one number of denoising steps, on the trials of some seeds */
    int seeds;
    json_t **result; /* (seeds), borrowed from `found`: rl/results.h */
};

struct mf_evals_found {
    json_t *result;
    int word, folder, at; /* of the user's words the one that led to it; how many of them were read before it */
    bool tuned;           /* its file begins with a policy that was fine-tuned */
    struct timespec time; /* of its file */
};

struct mf_evals { /* zeroed: empty */
    int folders, n_found, n;
    struct mf_evals_found *found; /* (n_found) */
    struct mf_evals_row *row;     /* (n) in order, once they are sorted */
};

/* The files *.json and *.jsonl in the folder, or in its folder `below`, that hold results, as far as they are whole;
 * others are passed over, and so are links out of the folder. */
void mf_evals_read(struct mf_evals *e, int word, const char *dir, const char *below);
/* Once all are read: rows, by word; of a word the clones' files before those of fine-tuned policies, then by folder as
 * they were read, and in one by the time of the file. What was found twice counts once. */
void mf_evals_sort(struct mf_evals *e);
void mf_evals_release(struct mf_evals *e);

/* All rows, success with Wilson's 95 % interval, each set against the first one of as many denoising steps, on the
 * trials that both had: paired.h. */
void mf_evals_put(const struct mf_evals *e, FILE *to);

#endif
