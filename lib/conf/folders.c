#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/compose.h"

enum { NAME_BYTES = 256 };

void mf_folders_add(struct mf_folders *f, const char *path, size_t n)
{
    for (int i = 0; i < f->n; i++)
        if (!strncmp(f->path[i], path, n) && !f->path[i][n])
            return;
    if (f->n == MF_FOLDERS_MAX)
        return;
    f->path[f->n] = mf_xcalloc(n + 1, 1);
    memcpy(f->path[f->n++], path, n);
}

void mf_folders_release(struct mf_folders *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->path[i]);
    f->n = 0;
}

bool mf_folders_find(const struct mf_folders *f, const char *name, const char *suffix, mode_t type,
                     char to[MF_PATH_BYTES])
{
    struct stat st;
    for (int i = 0; i < f->n; i++)
        if (snprintf(to, MF_PATH_BYTES, "%s/%s%s", f->path[i], name, suffix) < MF_PATH_BYTES && stat(to, &st) == 0 &&
            (st.st_mode & S_IFMT) == type)
            return true;
    return false;
}

bool mf_folders_have_group(const struct mf_folders *f, const char *group)
{
    char name[NAME_BYTES], path[MF_PATH_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(group, "@"), group);
    return *name && mf_folders_find(f, name, "", S_IFDIR, path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int mf_folders_options(const struct mf_folders *f, const char *group, char *name[MF_OPTIONS_MAX])
{
    int n = 0, kept = 0;
    for (int i = 0; i < f->n; i++) {
        char path[MF_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", f->path[i], group);
        DIR *d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d)) && n < MF_OPTIONS_MAX;) {
            const char *dot = strstr(e->d_name, ".yaml");
            if (dot && !dot[5]) {
                name[n] = mf_xstrdup(e->d_name);
                name[n++][dot - e->d_name] = '\0';
            }
        }
        if (d)
            closedir(d);
    }
    qsort(name, (size_t)n, sizeof *name, by_name);
    for (int i = 0; i < n; i++)
        if (kept && !strcmp(name[i], name[kept - 1]))
            free(name[i]);
        else
            name[kept++] = name[i];
    return kept;
}

void mf_folders_list(const struct mf_folders *f, const char *group, char *to, size_t size)
{
    char *name[MF_OPTIONS_MAX];
    const int n = mf_folders_options(f, group, name);
    *to = '\0';
    for (int i = 0; i < n; i++) {
        const size_t at = strlen(to);
        if (at + strlen(name[i]) + 4 < size)
            snprintf(to + at, size - at, "%s%s", at ? ", " : "", name[i]);
        free(name[i]);
    }
}

void mf_options_choose(struct mf_options_chosen *c, const char *group, const char *option, const char *where)
{
    c->of = mf_xrealloc(c->of, (size_t)c->n + 1, sizeof *c->of);
    c->of[c->n++] = (struct mf_option){.group = mf_xstrdup(group),
                                       .option = option ? mf_xstrdup(option) : NULL,
                                       .where = where ? mf_xstrdup(where) : NULL};
}

void mf_options_forget(struct mf_options_chosen *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->of[i].group);
        free(c->of[i].option);
        free(c->of[i].where);
    }
    free(c->of);
    *c = (struct mf_options_chosen){0};
}

struct mf_option *mf_options_find(const struct mf_options_chosen *c, const char *key)
{
    for (int i = 0; i < c->n; i++)
        if (!c->of[i].appended && !strcmp(c->of[i].group, key))
            return &c->of[i];
    return NULL;
}
