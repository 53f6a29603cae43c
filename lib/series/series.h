/* series.h - metrics in the formats of other tools: TensorBoard events, JSON Lines, CSV, Prometheus text.
 *
 * A format is one file here, series_NAME.c, and a row in series.c. A resumed run continues its files: entries from its
 * first step on, and an incomplete last entry, are removed, so that steps never go backwards.
 */
#ifndef MF_SERIES_SERIES_H
#define MF_SERIES_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* One metrics frame. */
struct mf_point {
    int64_t iter, step; /* iteration; control steps */
    double time;        /* s since the learner started */
    int n;
    const char **name; /* "train/approx_kl" */
    double *value;
};

struct mf_series_format {
    const char *name; /* name in log.formats */
    /* Continues the file in the folder before `step`, or starts one. `run` names the run. */
    int (*open)(void **self, const char *dir, const char *run, int64_t step, struct mf_err *err);
    int (*put)(void *self, const struct mf_point *p,
               struct mf_err *err); /* on the disk when it returns, but for fsync */
    /* Adds a video, an existing GIF; NULL: not supported by the format. */
    int (*film)(void *self, const char *tag, int64_t step, const char *path, struct mf_err *err);
    int (*close)(void *self, struct mf_err *err);
};

/* MF_EUSAGE lists the formats. */
int mf_series_find(const struct mf_series_format **f, const char *name, struct mf_err *err);

#endif
