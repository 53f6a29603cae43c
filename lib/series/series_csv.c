#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "series/series_priv.h"

static const char fixed[] = "iter,step,time";

struct csv {
    FILE *f;
    char path[MF_SERIES_PATH];
    int n; /* columns behind the fixed ones: of all metrics that any frame had */
    char **column;
};

static void add_column(struct csv *c, const char *name)
{
    c->column = mf_xrealloc(c->column, (size_t)c->n + 1, sizeof *c->column);
    c->column[c->n++] = mf_xstrdup(name);
}

static void put_head(const struct csv *c, FILE *f)
{
    fputs(fixed, f);
    for (int i = 0; i < c->n; i++)
        fprintf(f, ",%s", c->column[i]);
    putc('\n', f);
}

/* The head of a file that goes on says its columns. */
static void read_head(struct csv *c)
{
    char *line = NULL, *rest, *name;
    size_t room = 0;
    rewind(c->f);
    ssize_t n = getline(&line, &room, c->f);
    if (n > 0 && !strncmp(line, fixed, sizeof fixed - 1)) {
        line[n - 1] = '\0';
        rest = line + sizeof fixed - 1;
        rest = *rest ? rest + 1 : NULL; /* behind a comma */
        while (rest && (name = strsep(&rest, ",")))
            add_column(c, name);
    }
    free(line);
    fseek(c->f, 0, SEEK_END);
}

static int open_csv(void **self, const char *dir, const char *run, int64_t step, struct mf_err *err)
{
    struct csv *c = mf_xcalloc(1, sizeof *c);
    (void)run;
    snprintf(c->path, sizeof c->path, "%.1000s/metrics.csv", dir);
    int rc = mf_series_continue(&c->f, c->path, "%*d,%lld", step, err);
    if (rc) {
        free(c);
        return rc;
    }
    read_head(c);
    *self = c;
    return 0;
}

/* A metric that no frame had before: the same file with a wider head, its rows as long as they were. */
static int widen(struct csv *c, struct mf_err *err)
{
    char part[MF_SERIES_PATH + 8], *line = NULL;
    size_t room = 0;
    snprintf(part, sizeof part, "%s.part", c->path);
    FILE *to = fopen(part, "w+e");
    if (!to)
        return mf_err_errno(err, "open %.300s", part);
    put_head(c, to);
    rewind(c->f);
    for (bool head = true; getline(&line, &room, c->f) > 0; head = false)
        if (!head)
            fputs(line, to);
    free(line);
    if (fflush(to) || rename(part, c->path) < 0) {
        mf_err_errno(err, "write %.300s", part);
        fclose(to);
        remove(part);
        return err->code;
    }
    fclose(c->f);
    c->f = to;
    return 0;
}

static int find(const struct csv *c, const char *name)
{
    int i = 0;
    while (i < c->n && strcmp(c->column[i], name) != 0)
        i++;
    return i;
}

static int put_csv(void *self, const struct mf_point *p, struct mf_err *err)
{
    struct csv *c = self;
    const int before = c->n;
    for (int i = 0; i < p->n; i++)
        if (!strpbrk(p->name[i], ",\"\n") && find(c, p->name[i]) == c->n)
            add_column(c, p->name[i]);
    if (c->n > before && widen(c, err))
        return err->code;
    double *cell = mf_xcalloc((size_t)c->n + 1, sizeof *cell);
    bool *has = mf_xcalloc((size_t)c->n + 1, sizeof *has);
    for (int i = 0; i < p->n; i++) {
        const int at = find(c, p->name[i]);
        cell[at] = p->value[i], has[at] = true;
    }
    fprintf(c->f, "%lld,%lld,%.9g", (long long)p->iter, (long long)p->step, p->time);
    for (int i = 0; i < c->n; i++)
        if (has[i])
            fprintf(c->f, ",%.9g", cell[i]);
        else
            putc(',', c->f);
    putc('\n', c->f);
    free(cell);
    free(has);
    return mf_series_flush(c->f, c->path, err);
}

static int close_csv(void *self, struct mf_err *err)
{
    struct csv *c = self;
    int rc = fclose(c->f) ? mf_err_errno(err, "write %.300s", c->path) : 0;
    for (int i = 0; i < c->n; i++)
        free(c->column[i]);
    free(c->column);
    free(c);
    return rc;
}

const struct mf_series_format mf_series_csv = {"csv", open_csv, put_csv, NULL, close_csv};
