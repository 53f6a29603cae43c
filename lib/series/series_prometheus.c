/* The newest values alone, in the text format 0.0.4, for node_exporter's textfile collector or any web server. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/publish.h"
#include "series/series_priv.h"

enum { NAME = 160 };

struct prometheus {
    char path[MF_SERIES_PATH];
    char *label; /* {run="outputs/lift"} */
};

static int open_prometheus(void **self, const char *dir, const char *run, int64_t step, struct mf_err *err)
{
    struct prometheus *q = mf_xcalloc(1, sizeof *q);
    char *to = q->label = mf_xcalloc(2 * strlen(run) + 16, 1);
    (void)step, (void)err;
    to += sprintf(to, "{run=\"");
    for (; *run; run++) {
        if (strchr("\"\\\n", *run))
            *to++ = '\\';
        *to++ = *run == '\n' ? 'n' : *run;
    }
    strcpy(to, "\"}");
    snprintf(q->path, sizeof q->path, "%.1000s/metrics.prom", dir);
    *self = q;
    return 0;
}

/* The name in the characters that the format allows. */
static void plain(char to[NAME], const char *name)
{
    size_t n = (size_t)sprintf(to, "maniflow_");
    for (; *name && n < NAME - 1; name++)
        to[n++] = isalnum((unsigned char)*name) ? *name : '_';
    to[n] = '\0';
}

/* Go's names of non-finite numbers. */
static void put_value(double v, FILE *f)
{
    if (isfinite(v))
        fprintf(f, "%.17g\n", v);
    else
        fputs(isnan(v) ? "NaN\n" : v > 0 ? "+Inf\n" : "-Inf\n", f);
}

/* Equal names are numbered, since a duplicate name makes the whole text invalid. */
static void put_gauges(const struct prometheus *q, const struct mf_point *p, FILE *f)
{
    char(*name)[NAME] = mf_xcalloc((size_t)p->n + 2, sizeof *name);
    plain(name[0], "iteration");
    plain(name[1], "steps");
    for (int i = 0; i < p->n + 2; i++) {
        int same = 0;
        char number[16] = "";
        if (i >= 2)
            plain(name[i], p->name[i - 2]);
        for (int k = 0; k < i; k++)
            same += !strcmp(name[k], name[i]);
        if (same)
            snprintf(number, sizeof number, "__%d", same + 1);
        fprintf(f, "# TYPE %s%s gauge\n%s%s%s ", name[i], number, name[i], number, q->label);
        put_value(i == 0 ? (double)p->iter : i == 1 ? (double)p->step : p->value[i - 2], f);
    }
    free(name);
}

/* Replaced atomically, as a scraper may read at any time. */
static int put_prometheus(void *self, const struct mf_point *p, struct mf_err *err)
{
    const struct prometheus *q = self;
    char *part = mf_publish_part(q->path, err);
    FILE *f = part ? fopen(part, "we") : NULL;
    int rc = f ? 0 : part ? mf_err_errno(err, "open %.300s", part) : err->code;
    if (f) {
        put_gauges(q, p, f);
        rc = mf_series_flush(f, part, err);
        if (fclose(f) && rc == 0)
            rc = mf_err_errno(err, "close %.300s", part);
        if (rc == 0 && rename(part, q->path) < 0)
            rc = mf_err_errno(err, "rename %.300s", part);
        if (rc)
            remove(part);
    }
    free(part);
    return rc;
}

static int close_prometheus(void *self, struct mf_err *err)
{
    struct prometheus *q = self;
    (void)err;
    free(q->label);
    free(q);
    return 0;
}

const struct mf_series_format mf_series_prometheus = {"prometheus", open_prometheus, put_prometheus, NULL,
                                                      close_prometheus};
