/* mf-ckpt: look at checkpoints, compare them, check them, thin them out. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/safetensors_diff.h"
#include "data/torch_show.h"
#include "flow/policy.h"
#include "stage/rundir.h"
#include "stage/stage.h"

struct ckpt {
    int64_t keep;
    int format; /* 0 text, 1 json */
};

static const struct mf_bind binds[] = {
    {"ckpt.keep", offsetof(struct ckpt, keep)},
    {"ckpt.format", offsetof(struct ckpt, format)},
    {0},
};

static bool starts(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

static bool ends(const char *s, const char *with)
{
    return strlen(s) >= strlen(with) && !strcmp(s + strlen(s) - strlen(with), with);
}

/* ---- a list of checkpoint files, by iteration ---- */

struct item {
    char *path;
    char kind[16];
    int64_t iter, version;
    size_t params, size; /* weights; bytes */
    double success;      /* NaN: not known */
};

struct list {
    struct item *items;
    int n;
};

static void list_release(struct list *l)
{
    while (l->n)
        free(l->items[--l->n].path);
    free(l->items);
}

/* Success of the rollouts that led to it (noise on), from the JSON that mf-ppo leaves beside the file. */
static double success_of(const char *path)
{
    char json[4096], text[4096];
    snprintf(json, sizeof json, "%.*s.json", (int)(strlen(path) - strlen(".safetensors")), path);
    FILE *f = ends(path, ".safetensors") ? fopen(json, "r") : NULL;
    if (!f)
        return NAN;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *at = strstr(text, "\"rollout/success_once\":");
    return at ? strtod(at + strlen("\"rollout/success_once\":"), NULL) : NAN;
}

static int64_t number_of(const struct mf_safetensors *f, const char *key)
{
    const char *text = mf_safetensors_meta(f, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

static bool is_weight(const char *name)
{
    return !starts(name, "ema/") && !starts(name, "opt/") && !starts(name, "normalizer.") && !starts(name, "state/");
}

static int list_file(struct list *l, const char *path, struct mf_err *err)
{
    struct mf_loaded *c;
    struct stat st;
    int rc = mf_checkpoint_open(&c, path, err);
    if (rc)
        return rc;
    const struct mf_safetensors *f = mf_loaded_file(c);
    struct item it = {.path = mf_xstrdup(path), .success = success_of(path)};
    snprintf(it.kind, sizeof it.kind, "%s", mf_loaded_kind(c));
    it.iter = number_of(f, "iter");
    it.version = number_of(f, "version");
    it.size = stat(path, &st) == 0 ? (size_t)st.st_size : 0;
    for (int i = 0; i < f->n; i++)
        it.params += is_weight(f->tensors[i].name) ? f->tensors[i].count : 0;
    mf_checkpoint_close(c);
    l->items = mf_xrealloc(l->items, (size_t)l->n + 1, sizeof *l->items);
    l->items[l->n++] = it;
    return 0;
}

/* Every *.safetensors of a folder that is a file and no link, or of its checkpoints/. What is broken is told and left.
 */
static int list_folder(struct list *l, const char *path, struct mf_err *err)
{
    char at[4096];
    struct stat st;
    snprintf(at, sizeof at, "%s/checkpoints", path);
    if (stat(at, &st) == 0 && S_ISDIR(st.st_mode))
        path = at;
    char *folder = mf_xstrdup(path);
    DIR *d = opendir(folder);
    if (!d) {
        free(folder);
        return mf_err_errno(err, "cannot open %s", path);
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct mf_err why;
        snprintf(at, sizeof at, "%s/%s", folder, e->d_name);
        if (ends(at, ".safetensors") && lstat(at, &st) == 0 && S_ISREG(st.st_mode) && list_file(l, at, &why))
            mf_log(MF_LOG_WARN, "%s", why.text);
    }
    closedir(d);
    free(folder);
    return 0;
}

static int by_iter(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->iter != y->iter)
        return x->iter < y->iter ? -1 : 1;
    return x->version != y->version ? (x->version < y->version ? -1 : 1) : strcmp(x->path, y->path);
}

static int list_all(struct list *l, int n, const char *const *paths, struct mf_err *err)
{
    struct stat st;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        rc = stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode) ? list_folder(l, paths[i], err)
                                                             : list_file(l, paths[i], err);
    if (l->n)
        qsort(l->items, (size_t)l->n, sizeof *l->items, by_iter);
    return rc;
}

static int list(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct list l = {0};
    (void)self;
    int rc = list_all(&l, n, paths, err);
    if (!rc)
        printf("%8s %8s  %-6s %11s %11s %8s  %s\n", "iter", "version", "kind", "params", "bytes", "rollout", "file");
    for (int i = 0; i < l.n && !rc; i++) {
        const struct item *it = &l.items[i];
        char success[16] = "-";
        if (!isnan(it->success))
            snprintf(success, sizeof success, "%.3f", it->success);
        printf("%8" PRId64 " %8" PRId64 "  %-6s %11zu %11zu %8s  %s\n", it->iter, it->version, it->kind, it->params,
               it->size, success, it->path);
    }
    list_release(&l);
    return rc;
}

static int prune(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct list l = {0};
    (void)n;
    int rc = list_folder(&l, paths[0], err);
    if (l.n)
        qsort(l.items, (size_t)l.n, sizeof *l.items, by_iter);
    for (int i = 0; i + self->keep < l.n && !rc; i++) {
        char *path = l.items[i].path;
        if (unlink(path) < 0)
            rc = mf_err_errno(err, "cannot remove %s", path);
        else
            printf("removed %s\n", path);
        strcpy(path + strlen(path) - strlen(".safetensors"), ".json");
        if (!rc && unlink(path) == 0)
            printf("removed %s\n", path);
    }
    list_release(&l);
    return rc;
}

/* ---- one file ---- */

/* The file, or the newest of a run's folder. */
static int open_file(struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    char newest[MF_PATH_MAX];
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return mf_safetensors_open(f, folder && mf_rundir_newest(path, newest) ? newest : path, err);
}

static int show_torch(const struct ckpt *self, const char *path, struct mf_err *err)
{
    struct mf_torch f;
    int rc = mf_torch_open(&f, path, err);
    if (rc)
        return rc;
    mf_torch_show(&f, self->format, stdout);
    mf_torch_close(&f);
    return 0;
}

static int show(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_safetensors f;
    (void)n;
    if (mf_torch_is(paths[0]))
        return show_torch(self, paths[0], err);
    int rc = open_file(&f, paths[0], err);
    if (rc)
        return rc;
    if (self->format)
        printf("%.*s\n", (int)f.header_size, f.header);
    for (int i = 0; i < f.n_meta && !self->format; i++)
        printf("%-24s %s\n", f.meta[i].key, f.meta[i].value);
    for (int i = 0; i < f.n && !self->format; i++) {
        const struct mf_array *a = &f.tensors[i];
        printf("%-64s %s (", a->name, mf_dtype_name(a->dtype));
        for (int d = 0; d < a->rank; d++)
            printf(d ? ", %zu" : "%zu", a->dim[d]);
        puts(")");
    }
    mf_safetensors_close(&f);
    return 0;
}

static float float_at(const struct mf_array *a, size_t i)
{
    float x;
    memcpy(&x, (const char *)a->data + i * sizeof x, sizeof x);
    return x;
}

static int diff(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_safetensors a, b;
    (void)self, (void)n;
    int rc = open_file(&a, paths[0], err);
    if (rc)
        return rc;
    if (!(rc = open_file(&b, paths[1], err)) && mf_safetensors_diff(&a, &b, stdout) == 0)
        puts("the same");
    mf_safetensors_close(&a);
    if (!rc)
        mf_safetensors_close(&b);
    return rc;
}

/* ---- verify ---- */

static int check_numbers(const struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    for (int i = 0; i < f->n; i++)
        for (size_t j = 0; f->tensors[i].dtype == MF_F32 && j < f->tensors[i].count; j++)
            if (!isfinite(float_at(&f->tensors[i], j)))
                return mf_err_set(err, MF_EFORMAT, "%s: number %zu of %s is %g", path, j, f->tensors[i].name,
                                  (double)float_at(&f->tensors[i], j));
    return 0;
}

static int verify_file(const char *path, struct mf_err *err)
{
    struct mf_loaded *l;
    struct mf_policy p;
    int rc = mf_checkpoint_open(&l, path, err);
    if (rc)
        return rc;
    if ((rc = mf_policy_init(&p, mf_loaded_spec(l), err)))
        mf_err_at(err, "%s", path);
    else {
        mf_policy_fresh(&p, 0);
        if (!(rc = mf_loaded_policy(l, &p, MF_WEIGHTS_RAW, err)))
            rc = check_numbers(mf_loaded_file(l), path, err);
        mf_policy_release(&p);
    }
    mf_checkpoint_close(l);
    return rc;
}

static int verify(struct ckpt *self, int n, const char *const *paths, struct mf_err *err)
{
    int bad = 0;
    (void)self;
    for (int i = 0; i < n; i++) {
        struct mf_err why;
        int rc = verify_file(paths[i], &why);
        if (rc == 0)
            printf("%s: ok\n", paths[i]);
        else
            mf_log(MF_LOG_ERROR, "%s", why.text);
        bad += rc != 0;
    }
    return bad ? mf_err_set(err, MF_EFORMAT, "%d of %d is no whole checkpoint", bad, n) : 0;
}

/* ---- ema ---- */

/* Weights with their EMA in place; what only training needs stays behind. */
static int ema(struct ckpt *self, int n_paths, const char *const *paths, struct mf_err *err)
{
    struct mf_safetensors f;
    (void)self, (void)n_paths;
    int rc = mf_safetensors_open(&f, paths[0], err), n = 0, n_meta = 0, taken = 0;
    if (rc)
        return rc;
    struct mf_array *t = mf_xcalloc((size_t)f.n, sizeof *t);
    for (int i = 0; i < f.n; i++) {
        char average[MF_NAME_MAX + 4];
        snprintf(average, sizeof average, "ema/%s", f.tensors[i].name);
        const struct mf_array *a = mf_safetensors_find(&f, average);
        if (starts(f.tensors[i].name, "ema/") || starts(f.tensors[i].name, "opt/") ||
            starts(f.tensors[i].name, "state/"))
            continue;
        t[n] = f.tensors[i];
        if (a && a->bytes == t[n].bytes) {
            t[n].data = a->data;
            taken++;
        }
        n++;
    }
    for (int i = 0; i < f.n_meta; i++)
        if (!starts(f.meta[i].key, "adam."))
            f.meta[n_meta++] = f.meta[i];
    rc = taken ? mf_safetensors_write(paths[1], t, n, f.meta, n_meta, err)
               : mf_err_set(err, MF_EUSAGE, "%s holds no EMA weights", paths[0]);
    free(t);
    mf_safetensors_close(&f);
    return rc;
}

static const struct command {
    const char *name;
    int least, most; /* operands */
    int (*run)(struct ckpt *self, int n, const char *const *paths, struct mf_err *err);
} commands[] = {
    {"ls", 1, INT32_MAX, list},       {"show", 1, 1, show},   {"diff", 2, 2, diff},
    {"verify", 1, INT32_MAX, verify}, {"prune", 1, 1, prune}, {"ema", 2, 2, ema},
};

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    int n;
    const char *const *words = mf_run_operands(run, &n);
    for (size_t i = 0; i < sizeof commands / sizeof *commands && n; i++)
        if (!strcmp(words[0], commands[i].name) && n - 1 >= commands[i].least && n - 1 <= commands[i].most)
            return commands[i].run(self, n - 1, words + 1, err);
    return mf_err_set(err, MF_EUSAGE,
                      "say one of: ls RUN|FILE..., show RUN|FILE, diff FILE FILE, verify FILE..., prune RUN, "
                      "ema FILE OUT");
}

static const struct mf_stage stage = {
    .name = "ckpt",
    .summary = "Look at checkpoints, compare them, check them, thin them out.\n\n"
               "  ls RUN|FILE...   a row for each, by iteration; rollout: success of the round that it learned from\n"
               "  show RUN|FILE    its metadata and tensors; of a run: of the newest; also of a PyTorch file (.pt, "
               ".pth, .ckpt)\n"
               "  diff FILE FILE   what differs; each may be a run, too\n"
               "  verify FILE...   is each whole, finite, and a policy?\n"
               "  prune RUN        remove all but the newest\n"
               "  ema FILE OUT     a copy whose weights are the averaged ones, for use without this toolkit",
    .operands = "COMMAND FILE...",
    .examples = "  mf-ckpt ls outputs/lift/latest\n"
                "  mf-ckpt show clone.safetensors ckpt.format=json | jq .__metadata__\n"
                "  mf-ckpt prune outputs/lift/latest ckpt.keep=3\n",
    .role = MF_TOOL,
    .text_out = true,
    .binds = binds,
    .size = sizeof(struct ckpt),
    .work = work,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
