#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "series/series_priv.h"

struct jsonl {
    FILE *f;
    char path[MF_SERIES_PATH];
};

static int open_jsonl(void **self, const char *dir, const char *run, int64_t step, struct mf_err *err)
{
    struct jsonl *j = mf_xcalloc(1, sizeof *j);
    (void)run;
    snprintf(j->path, sizeof j->path, "%.1000s/metrics.jsonl", dir);
    int rc = mf_series_continue(&j->f, j->path, "{\"iter\": %*d, \"step\": %lld", step, err);
    if (rc)
        free(j);
    else
        *self = j;
    return rc;
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static int put_jsonl(void *self, const struct mf_point *p, struct mf_err *err)
{
    struct jsonl *j = self;
    json_t *line =
        json_pack("{s:I, s:I, s:o}", "iter", (json_int_t)p->iter, "step", (json_int_t)p->step, "time", real(p->time));
    for (int i = 0; i < p->n; i++)
        json_object_set_new(line, p->name[i], real(p->value[i]));
    json_dumpf(line, j->f, JSON_REAL_PRECISION(9));
    putc('\n', j->f);
    json_decref(line);
    return mf_series_flush(j->f, j->path, err);
}

static int close_jsonl(void *self, struct mf_err *err)
{
    struct jsonl *j = self;
    int rc = fclose(j->f) ? mf_err_errno(err, "write %.300s", j->path) : 0;
    free(j);
    return rc;
}

const struct mf_series_format mf_series_jsonl = {"jsonl", open_jsonl, put_jsonl, NULL, close_jsonl};
