/* demos.h - demonstrations in robomimic's HDF5 layout, read into memory.
 *
 *   /data            attributes env_args (JSON text), total
 *   /data/demo_ID    actions (n, A), obs/KEY (n, dims..), ...; IDs have gaps and sort as integers
 *   /mask/FILTER     names of the demos of a split
 *
 * Numbers may be float32 or float64, observations uint8 too, contiguous or compressed. Every failure
 * is one sentence that names the file, the demo and the dataset.
 */
#ifndef MF_DATA_DEMOS_H
#define MF_DATA_DEMOS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/layout.h"

enum { MF_DEMO_KEYS = 64 };

struct mf_demo {
    char name[32]; /* "demo_12" */
    int64_t id;
    size_t start, n; /* its rows in obs and actions; n > 0 */
};

struct mf_demos {
    size_t n_demos, total; /* total: rows of all */
    struct mf_demo *demo;  /* (n_demos) by id; demo i ends where i+1 starts */
    int n_keys, obs_dim, action_dim;
    struct mf_obs key[MF_DEMO_KEYS];
    float *obs;     /* (total, obs_dim): the keys side by side, in order */
    float *actions; /* (total, action_dim) */
    char *env_args; /* JSON, or NULL */
};

struct mf_demos_opts {
    const char *filter; /* /mask/FILTER; NULL: every demo */
    int n_keys;         /* 0: every key whose steps are 1-D floats, by name */
    const char *const *keys;
};

/* On failure *d holds nothing. A value that is not finite: MF_EMATH with demo, key and index. */
int mf_demos_read(struct mf_demos *d, const char *path, const struct mf_demos_opts *opts, struct mf_err *err);
void mf_demos_release(struct mf_demos *d); /* safe on a zeroed one */

#endif
