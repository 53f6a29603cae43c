/* The newest values alone, in the text format 0.0.4, for node_exporter's textfile collector or any web server. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "series/series_priv.h"

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
        if (*run == '"' || *run == '\\')
            *to++ = '\\';
        *to++ = *run == '\n' ? ' ' : *run;
    }
    strcpy(to, "\"}");
    snprintf(q->path, sizeof q->path, "%.1000s/metrics.prom", dir);
    *self = q;
    return 0;
}

static void gauge(const struct prometheus *q, const char *name, double value, FILE *f)
{
    char plain[160] = "maniflow_";
    size_t n = strlen(plain);
    for (; *name && n < sizeof plain - 1; name++)
        plain[n++] = isalnum((unsigned char)*name) ? *name : '_';
    fprintf(f, "# TYPE %s gauge\n%s%s %.17g\n", plain, plain, q->label, value);
}

/* Whole or not at all: a scraper reads whenever it likes. */
static int put_prometheus(void *self, const struct mf_point *p, struct mf_err *err)
{
    const struct prometheus *q = self;
    char part[MF_SERIES_PATH + 8];
    snprintf(part, sizeof part, "%s.part", q->path);
    FILE *f = fopen(part, "we");
    if (!f)
        return mf_err_errno(err, "open %.300s", part);
    gauge(q, "iteration", (double)p->iter, f);
    gauge(q, "steps", (double)p->step, f);
    for (int i = 0; i < p->n; i++)
        gauge(q, p->name[i], p->value[i], f);
    int bad = fflush(f) ? mf_err_errno(err, "write %.300s", part) : 0;
    fclose(f);
    if (!bad && rename(part, q->path) < 0)
        bad = mf_err_errno(err, "rename %.300s", part);
    if (bad)
        remove(part);
    return bad;
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
