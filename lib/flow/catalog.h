/* catalog.h - many checkpoint files, by iteration. */
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
    double success;      /* of the rollouts that led to it; NaN: not known */
};

struct mf_catalog {
    struct mf_catalog_item *items;
    int n;
    void (*broken)(const char *why); /* hears of a file in a folder that is no checkpoint, and is left */
    int n_broken;                    /* how many it heard of */
};

/* Every checkpoint of a run, a shelf or a folder (mf_runs_files). */
int mf_catalog_folder(struct mf_catalog *l, const char *path, struct mf_err *err);
/* Files and such folders. A file that is broken is an error. */
int mf_catalog_all(struct mf_catalog *l, int n, const char *const *paths, struct mf_err *err);
void mf_catalog_release(struct mf_catalog *l);

#endif
