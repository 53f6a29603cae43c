#include "plot/run_logs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "plot/in_force.h"
#include "run/runs.h"

enum { DEPTH = 4 };

static int n_keys(void)
{
    int n = 0;
    while (mf_keys[n].name)
        n++;
    return n;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static char *join(const char *dir, const char *name)
{
    char *path = mf_xcalloc(strlen(dir) + strlen(name) + 2, 1);
    sprintf(path, "%s/%s", dir, name);
    return path;
}

/* ---- finding runs ---- */

static void add(struct mf_run_logs *t, const char *path)
{
    t->log = mf_xrealloc(t->log, (size_t)t->n + 1, sizeof *t->log);
    t->log[t->n++] = (struct mf_run_log){.path = mf_xstrdup(path), .h.fd = -1};
}

static int no_dots(const struct dirent *e)
{
    return *e->d_name != '.';
}

static void search(struct mf_run_logs *t, const char *dir, int depth)
{
    struct dirent **entry;
    if (mf_runs_is_run(dir)) {
        add(t, dir);
        return;
    }
    const int n = depth ? scandir(dir, &entry, no_dots, versionsort) : -1;
    for (int i = 0; i < n; i++) {
        char *below = join(dir, entry[i]->d_name);
        struct stat st;
        if (lstat(below, &st) == 0 && S_ISDIR(st.st_mode))
            search(t, below, depth - 1);
        free(below);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

static int find(struct mf_run_logs *t, const char *word, struct mf_err *err)
{
    const int before = t->n;
    struct mf_at at;
    int rc = mf_runs_at(&at, word, err);
    if (rc)
        return rc;
    if (at.kind == MF_AT_FILE) {
        add(t, word);
        return 0;
    }
    search(t, word, DEPTH);
    return t->n > before ? 0
                         : mf_err_set(err, MF_EUSAGE,
                                      "%s has no run in it or below: no checkpoints/ and no logs/metrics.mf", word);
}

/* ---- their configuration ---- */

/* A stage without the option records the default, so a value that differs from the default wins. */
static void take_configuration(struct mf_run_log *t, const char *program, const struct mf_conf *defaults)
{
    struct mf_conf *c = mf_conf_new();
    struct mf_err why;
    const bool read = mf_conf_recorded(c, t->folder, program, &why) == 0;
    if (!read)
        mf_log(MF_LOG_WARN, "%s; ignored", why.text);
    const bool first = !t->text;
    if (read && first)
        t->text = mf_xcalloc((size_t)n_keys(), sizeof *t->text);
    for (int k = 0; read && mf_keys[k].name; k++) {
        const char *text = mf_conf_text(c, mf_keys[k].name);
        if (!first && !same_text(t->text[k], mf_conf_text(defaults, mf_keys[k].name)))
            continue;
        free(t->text[k]);
        t->text[k] = text ? mf_xstrdup(text) : NULL;
    }
    mf_conf_free(c);
}

static int of_stages(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return !strncmp(e->d_name, "mf-", 3) && dot && !strcmp(dot, ".yaml");
}

static void configure(struct mf_run_log *t, const struct mf_conf *defaults)
{
    struct dirent **entry;
    char *dir = join(t->folder, "configs");
    const int n = *t->folder ? scandir(dir, &entry, of_stages, alphasort) : -1;
    for (int i = 0; i < n; i++) {
        *strrchr(entry[i]->d_name, '.') = '\0';
        take_configuration(t, entry[i]->d_name, defaults);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    free(dir);
    if (t->text && t->h.head)
        mf_in_force(t->h.head, t->text);
    for (int k = 0; t->text && mf_keys[k].name; k++)
        if (!strcmp(mf_keys[k].name, "run.seed") && t->text[k])
            t->seed = strtoll(t->text[k], NULL, 10);
}

bool mf_run_logs_set(const struct mf_run_logs *all, const struct mf_run_log *t, int key)
{
    return t->text && !same_text(t->text[key], mf_conf_text(all->defaults, mf_keys[key].name));
}

static int read_metrics(struct mf_run_log *t, struct mf_err *err)
{
    bool hung_up;
    int rc = mf_history_open(&t->h, t->path, err);
    t->folder = mf_xstrdup(t->h.run);
    while (rc == 0 && (rc = mf_history_more(&t->h, &hung_up, err)) > 0)
        rc = 0;
    return rc;
}

/* ---- grouping ---- */

/* Keys of a run's location and monitoring, which do not affect its results. */
static bool matters(const char *key)
{
    static const char *const group[] = {"run.",  "log.",  "top.",  "plot.",    "report.", "view.",     "wire.", "eval.",
                                        "data.", "ckpt.", "conf.", "compare.", "threads", "use_wandb", "wandb_"};
    for (size_t i = 0; i < sizeof group / sizeof *group; i++)
        if (!strncmp(key, group[i], strlen(group[i])))
            return false;
    return true;
}

/* Are they in one folder, like the seeds of a sweep? */
static bool beside(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL), *i = x ? strrchr(x, '/') : NULL,
         *j = y ? strrchr(y, '/') : NULL;
    const bool are = i && j && i - x == j - y && !strncmp(x, y, (size_t)(i - x));
    free(x);
    free(y);
    return are;
}

/* Length of the seed that this part of a path begins with, up to its end or a dot; 0: it is another name. */
static size_t seed_at(const char *part, int64_t seed)
{
    char text[24];
    const size_t n = (size_t)snprintf(text, sizeof text, "%lld", (long long)seed);
    return !strncmp(part, text, n) && (!part[n] || strchr("/.", part[n])) ? n : 0;
}

/* Equal, except where parts of a path are the seeds of their runs: the seeds of a sweep may each have their own clone.
 */
static bool same_but_seed(const char *a, int64_t seed_a, const char *b, int64_t seed_b)
{
    if (!a || !b || !strchr(a, '/'))
        return same_text(a, b);
    for (bool begins = true; *a && *b; begins = *a == '/', a++, b++) {
        const size_t n = begins ? seed_at(a, seed_a) : 0, m = n ? seed_at(b, seed_b) : 0;
        a += m ? n : 0;
        b += m;
        if (*a != *b || !*a)
            break;
    }
    return *a == *b;
}

static bool belongs(const struct mf_cohort *g, const struct mf_run_log *t)
{
    const struct mf_run_log *first = g->log[0];
    if (!t->text || !first->text || !beside(t->folder, first->folder))
        return false;
    for (int i = 0; i < g->n; i++)
        if (g->log[i]->seed == t->seed)
            return false;
    for (int k = 0; mf_keys[k].name; k++)
        if (matters(mf_keys[k].name) && !same_but_seed(t->text[k], t->seed, first->text[k], first->seed))
            return false;
    return true;
}

static void sort_into_groups(struct mf_run_logs *t)
{
    t->group = mf_xcalloc((size_t)t->n + 1, sizeof *t->group);
    for (int i = 0; i < t->n; i++) {
        int g = 0;
        while (g < t->n_groups && !belongs(&t->group[g], &t->log[i]))
            g++;
        t->n_groups += g == t->n_groups;
        struct mf_cohort *to = &t->group[g];
        to->log = mf_xrealloc(to->log, (size_t)to->n + 1, sizeof *to->log);
        to->log[to->n++] = &t->log[i];
    }
}

static void find_differences(struct mf_run_logs *t)
{
    t->differs = mf_xcalloc((size_t)n_keys(), sizeof *t->differs);
    for (int g = 1; g < t->n_groups; g++)
        for (int k = 0; mf_keys[k].name; k++) {
            char **a = t->group[0].log[0]->text, **b = t->group[g].log[0]->text;
            t->differs[k] |= a && b && matters(mf_keys[k].name) && !same_text(a[k], b[k]);
        }
}

/* Bytes of whole folders that both paths begin with: of a/b/c and a/b/d those of "a/b". */
static size_t common(const char *a, const char *b, size_t most)
{
    size_t whole = 0, i = 0;
    for (; i < most && a[i] && a[i] == b[i]; i++)
        if (a[i] == '/')
            whole = i;
    return (i == most || !a[i] || a[i] == '/') && (!b[i] || b[i] == '/') ? i : whole;
}

/* outputs/sweep/fast/0 and /1 are "fast" beside outputs/sweep/slow/0. Where that tells nothing, the first one's path.
 */
static void name_groups(struct mf_run_logs *t)
{
    size_t shared = t->n ? strlen(t->log[0].path) : 0;
    for (int i = 1; i < t->n; i++)
        shared = common(t->log[0].path, t->log[i].path, shared);
    for (int g = 0; g < t->n_groups; g++) {
        struct mf_cohort *to = &t->group[g];
        const char *first = to->log[0]->path;
        size_t own = strlen(first);
        for (int i = 1; i < to->n; i++)
            own = common(first, to->log[i]->path, own);
        const size_t skip = t->n_groups < 2 ? 0 : shared + (shared > 0);
        if (own > skip)
            snprintf(to->label, sizeof to->label, "%.*s", (int)(own - skip), first + skip);
        for (int other = 0; other < g; other++)
            if (!strcmp(t->group[other].label, to->label))
                *to->label = '\0';
        if (!*to->label)
            snprintf(to->label, sizeof to->label, "%s", first);
    }
}

/* A run of [from, n) that an earlier word has found counts once. */
static void drop_found(struct mf_run_logs *t, int from)
{
    int n = from;
    for (int i = from, k; i < t->n; i++) {
        for (k = 0; k < from && !mf_file_same(t->log[k].path, t->log[i].path);)
            k++;
        if (k < from)
            free(t->log[i].path);
        else
            t->log[n++] = t->log[i];
    }
    t->n = n;
}

int mf_run_logs_open(struct mf_run_logs *t, const char *const *word, int n, struct mf_err *err)
{
    int rc = mf_file_once(n, word, err);
    *t = (struct mf_run_logs){.defaults = mf_conf_new()};
    for (int i = 0, first = 0; i < n && rc == 0; i++) {
        rc = find(t, word[i], err);
        drop_found(t, first);
        while (first < t->n)
            t->log[first++].word = i;
    }
    for (int i = 0; i < t->n && rc == 0; i++) {
        rc = read_metrics(&t->log[i], err);
        configure(&t->log[i], t->defaults);
    }
    if (rc)
        return rc;
    sort_into_groups(t);
    find_differences(t);
    name_groups(t);
    return 0;
}

void mf_run_logs_close(struct mf_run_logs *t)
{
    for (int i = 0; i < t->n; i++) {
        struct mf_run_log *one = &t->log[i];
        for (int k = 0; one->text && mf_keys[k].name; k++)
            free(one->text[k]);
        free(one->text);
        free(one->path);
        free(one->folder);
        mf_history_close(&one->h);
    }
    for (int g = 0; g < t->n_groups; g++)
        free(t->group[g].log);
    free(t->group);
    free(t->log);
    free(t->differs);
    if (t->defaults)
        mf_conf_free(t->defaults);
}

const char *mf_cohort_unit(const struct mf_cohort *g)
{
    int clones = 0;
    for (int i = 0; i < g->n; i++)
        clones += mf_history_find(&g->log[i]->h, "perf/samples_per_s") != NULL;
    return clones == 0 ? "control steps" : clones < g->n ? "steps" : "minibatches";
}

bool mf_cohorts_have(const struct mf_cohort *g, int n, const char *series)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < g[i].n; k++)
            if (mf_history_find(&g[i].log[k]->h, series))
                return true;
    return false;
}
