/* series_priv.h - shared by the formats. */
#ifndef MF_SERIES_SERIES_PRIV_H
#define MF_SERIES_SERIES_PRIV_H

#include <stdio.h>

#include "series/series.h"

extern const struct mf_series_format mf_series_tensorboard, mf_series_jsonl, mf_series_csv, mf_series_prometheus;

enum { MF_SERIES_PATH = 1200 };

/* Opens a text file for appending, truncated before the first line that, by scanf's `format`, belongs to `step` or
 * later, and before an incomplete line. */
int mf_series_continue(FILE **f, const char *path, const char *format, int64_t step, struct mf_err *err);
int mf_series_flush(FILE *f, const char *path, struct mf_err *err);

#endif
