#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/publish.h"
#include "series/series_priv.h"

enum { FIXED = 3 };
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

/* RFC 4180's quotes, where a name needs them. */
static void put_name(const char *name, FILE *f)
{
    const bool quoted = strpbrk(name, ",\"");
    if (quoted)
        putc('"', f);
    for (; *name; name++) {
        if (*name == '"')
            putc('"', f);
        putc(*name, f);
    }
    if (quoted)
        putc('"', f);
}

static void put_head(const struct csv *c, FILE *f)
{
    fputs(fixed, f);
    for (int i = 0; i < c->n; i++) {
        putc(',', f);
        put_name(c->column[i], f);
    }
    putc('\n', f);
}

/* A cell as put_name wrote it, out of *rest, which is then behind its comma; NULL behind the last one. */
static char *take_name(char **rest)
{
    char *p = *rest, *to = p, *name = p;
    const bool quoted = *p == '"';
    for (p += quoted; *p && (quoted || *p != ','); *to++ = *p++)
        if (quoted && *p == '"' && *++p != '"')
            break;
    *rest = *p ? p + 1 : NULL;
    *to = '\0';
    return name;
}

/* Reads the columns from the header of an existing file. */
static int read_head(struct csv *c, struct mf_err *err)
{
    char *line = NULL;
    size_t room = 0;
    rewind(c->f);
    ssize_t n = getline(&line, &room, c->f);
    if (n > 0 && !strncmp(line, fixed, sizeof fixed - 1)) {
        line[n - 1] = '\0';
        char *rest = line[sizeof fixed - 1] ? line + sizeof fixed : NULL; /* behind a comma */
        while (rest)
            add_column(c, take_name(&rest));
    }
    free(line);
    if (ferror(c->f) || fseek(c->f, 0, SEEK_END) < 0)
        return mf_err_errno(err, "read %.300s", c->path);
    if (n < 0)
        put_head(c, c->f);
    return 0;
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
    rc = read_head(c, err);
    struct mf_err ignored;
    if (rc)
        close_csv(c, &ignored);
    else
        *self = c;
    return rc;
}

/* The rows behind the head, each with as many cells as that has now; a row is numbers alone, so commas count them. */
static int copy_rows(const struct csv *c, FILE *from, FILE *to)
{
    char *line = NULL;
    size_t room = 0;
    rewind(from);
    bool good = getline(&line, &room, from) > 0 || !ferror(from);
    while (good && getline(&line, &room, from) > 0) {
        line[strcspn(line, "\n")] = '\0';
        int commas = 0;
        for (const char *p = line; (p = strchr(p, ',')); p++)
            commas++;
        fputs(line, to);
        for (; commas < FIXED - 1 + c->n; commas++)
            putc(',', to);
        putc('\n', to);
        good = !ferror(to);
    }
    free(line);
    return good && !ferror(from) ? 0 : -1;
}

/* A new metric: rewrites the file with one more column. */
static int widen(struct csv *c, struct mf_err *err)
{
    char *part = mf_publish_part(c->path, err);
    FILE *to = part ? fopen(part, "w+e") : NULL;
    int rc = to ? 0 : part ? mf_err_errno(err, "open %.300s", part) : err->code;
    if (to) {
        put_head(c, to);
        if (copy_rows(c, c->f, to))
            rc = mf_err_errno(err, "copy %.300s to %.300s", c->path, part);
        if (rc == 0)
            rc = mf_series_flush(to, part, err);
        if (rc)
            remove(part);
        if (rc == 0)
            rc = mf_publish(part, c->path, err);
        fclose(rc ? to : c->f); /* nothing is left in it to be written */
        c->f = rc ? c->f : to;
    }
    free(part);
    return rc;
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
        if (find(c, p->name[i]) == c->n)
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

const struct mf_series_format mf_series_csv = {"csv", open_csv, put_csv, NULL, close_csv};
