/* catalog.h - a list of checkpoint files, sorted by iteration. */
#ifndef MF_FLOW_CATALOG_H
#define MF_FLOW_CATALOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "run/runs.h"

struct mf_catalog_item {
    char *path;
    char kind[16];
    int64_t iter, version;
    size_t params, size; /* weights; bytes */
    double success;      /* of the last rollouts before it; NaN: unknown */
};

struct mf_catalog {
    struct mf_catalog_item *items;
    int n;
    void (*broken)(const char *why); /* called for each invalid file in a folder; the list omits it */
    int n_broken;                    /* number of calls */
};

/* Adds every checkpoint of a run, a folder of runs, or a folder of files (mf_runs_files). */
int mf_catalog_folder(struct mf_catalog *l, const char *path, struct mf_err *err);
/* Adds files and such folders. A named file that is invalid is an error. */
int mf_catalog_all(struct mf_catalog *l, int n, const char *const *paths, struct mf_err *err);
void mf_catalog_release(struct mf_catalog *l);

#endif
