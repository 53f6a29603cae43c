/* series.h - metrics in the files that other tools read: TensorBoard's events, JSON lines, CSV, Prometheus' text.
 *
 * A format is one file here, series_NAME.c, and a row in series.c. A run that
 * goes on continues its files: what they have from the first step on is cut
 * off, so that steps never go backwards, and so is a half-written end.
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
    const char *name; /* as log.formats has it */
    /* Continue what is in the folder before `step`, or begin. `run` names the run. */
    int (*open)(void **self, const char *dir, const char *run, int64_t step, struct mf_err *err);
    int (*put)(void *self, const struct mf_point *p,
               struct mf_err *err); /* on the disk when it returns, but for fsync */
    /* A video, a GIF that is there; NULL: the format has no place for one. */
    int (*film)(void *self, const char *tag, int64_t step, const char *path, struct mf_err *err);
    int (*close)(void *self, struct mf_err *err);
};

/* MF_EUSAGE names those that there are. */
int mf_series_find(const struct mf_series_format **f, const char *name, struct mf_err *err);

#endif
