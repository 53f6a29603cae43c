/* evals.h - what mf-eval left beside runs (eval.results, eval.json), as a table of a page. */
#ifndef MF_PLOT_EVALS_H
#define MF_PLOT_EVALS_H

#include <jansson.h>
#include <stdio.h>

struct mf_evals_row { /* one policy with one number of denoising steps, on the trials of some seeds */
    int seeds;
    json_t **result; /* (seeds), borrowed from `all`: rl/results.h */
};

struct mf_evals { /* zeroed: empty */
    json_t *all;  /* array */
    int n;
    struct mf_evals_row *row; /* (n) as they were found */
};

/* The files *.json and *.jsonl in the folder, or in its folder `below`, that hold results, as far as they are whole;
 * others are passed over, and so are what was found before, and links out of the folder. */
void mf_evals_read(struct mf_evals *e, const char *dir, const char *below);
void mf_evals_release(struct mf_evals *e);

/* All rows, success with Wilson's 95 % interval, each set against the first one of as many denoising steps, on the
 * trials that both had: paired.h. */
void mf_evals_put(const struct mf_evals *e, FILE *to);

#endif
