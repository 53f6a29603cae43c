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

static void put_text(const char *s, FILE *f)
{
    putc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putc('\\', f);
        putc(*s, f);
    }
    putc('"', f);
}

static int put_jsonl(void *self, const struct mf_point *p, struct mf_err *err)
{
    struct jsonl *j = self;
    fprintf(j->f, "{\"iter\": %lld, \"step\": %lld, \"time\": %.9g", (long long)p->iter, (long long)p->step, p->time);
    for (int i = 0; i < p->n; i++) {
        fputs(", ", j->f);
        put_text(p->name[i], j->f);
        fprintf(j->f, isfinite(p->value[i]) ? ": %.9g" : ": null", p->value[i]); /* JSON has no word for others */
    }
    fputs("}\n", j->f);
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
