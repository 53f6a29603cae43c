/* demos.h - demonstrations in robomimic's HDF5 layout, read by rows through a cache.
 *
 *   /data            attributes env_args (JSON text), total
 *   /data/demo_ID    actions (n, A), obs/KEY (n, ...), ...; IDs have gaps and sort as integers
 *   /mask/FILTER     names of the demos of a split
 *
 * KEY may have slashes: datasets of groups. Numbers may be of any width,
 * contiguous or compressed, also in other files that the file names; bytes of
 * two dims and more a step stay bytes (images), all others become float32.
 * Opening reads shapes and no numbers.
 * Rows are then read in pages, a demo's whole column or as many of its chunks
 * as make up 64 KiB, and stay in memory as far as the cache allows: a file
 * that fits into it is read once. Every failure is one sentence that names
 * the file, the demo and the dataset. One thread at a time.
 */
#ifndef MF_DEMOS_DEMOS_H
#define MF_DEMOS_DEMOS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/layout.h"

enum { MF_DEMO_COLUMNS = 64 };
enum { MF_DEMO_ACTIONS }; /* the first column; observations follow */

struct mf_demo_column {
    struct mf_obs is; /* name: "actions", or KEY of obs/KEY; a step's dims; float32 unless u8, whatever the file has */
    size_t count, bytes; /* of a step */
};

struct mf_demo {
    char name[32]; /* "demo_12" */
    int64_t id;
    size_t n; /* its steps; > 0 */
};

struct mf_demos {
    size_t n_demos, total; /* total: steps of all */
    struct mf_demo *demo;  /* (n_demos) by id */
    int n_columns;
    struct mf_demo_column column[MF_DEMO_COLUMNS];
    char unseen[300];            /* "a, b": observations of the first demo without a column, cut to fit */
    char *env_args;              /* JSON, or NULL */
    uint64_t bytes;              /* of all rows, in memory */
    struct mf_demo_cache *cache; /* its own */
    struct mf_demo_words *words; /* its own: of the column `spoken`; NULL: every column is in the file (demo_words.h) */
    int spoken;
};

struct mf_demos_opts {
    const char *filter; /* /mask/FILTER; NULL: every demo */
    int n_keys;         /* observations; 0: every key whose steps are 1-D numbers, by name */
    const char *const *keys;
    const char *without;   /* of n_keys 0: a key that is left out; NULL: none */
    size_t cache;          /* bytes of rows in memory; at least one page */
    const char *tokenizer; /* makes the key `tokens` of the demos' tasks; NULL: the file has it, if anything has */
    int prompt_length;     /* its ids */
};

/* On failure *d holds nothing. */
int mf_demos_open(struct mf_demos *d, const char *path, const struct mf_demos_opts *opts, struct mf_err *err);
void mf_demos_close(struct mf_demos *d); /* safe on a zeroed one */

/* The name of their environment, env_args' env_name: "Lift"; "": not given. */
int mf_demos_env(const char *path, char name[64], struct mf_err *err);

/* Rows of a column from step t < n of a demo on; *n of them are contiguous. They are valid until the next call.
 * A float that is not finite: MF_EFORMAT with its index. */
int mf_demos_rows(struct mf_demos *d, int column, size_t demo, size_t t, const void **rows, size_t *n,
                  struct mf_err *err);

/* Of demos with a tokenizer: its digest (NULL: they have none), and mf_prompter_fill for the task of a demo. */
const char *mf_demos_tokenizer(const struct mf_demos *d);
int mf_demos_pieces(const struct mf_demos *d); /* tokens that it knows; 0: likewise */
int mf_demos_prompt(const struct mf_demos *d, size_t demo, const struct mf_layout *l, const struct mf_affine *norm,
                    float *obs, struct mf_err *err);

#endif
