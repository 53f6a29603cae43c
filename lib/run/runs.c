#include "run/runs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "run/safetensors.h"

enum { NAMED = 4 }; /* runs that a sentence names */

int mf_runs_join(char path[MF_PATH_MAX], const char *dir, const char *name, struct mf_err *err)
{
    if (snprintf(path, MF_PATH_MAX, "%s/%s", dir, name) >= MF_PATH_MAX)
        return mf_err_set(err, MF_EUSAGE, "%.80s..: the path is too long", dir);
    return 0;
}

/* ---- what a path is ---- */

static bool holds(const char *dir, const char *name, mode_t type)
{
    char path[MF_PATH_MAX];
    struct stat st;
    struct mf_err ignored;
    return mf_runs_join(path, dir, name, &ignored) == 0 && stat(path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

bool mf_runs_is_run(const char *dir)
{
    return holds(dir, "checkpoints", S_IFDIR) || holds(dir, "logs/metrics.mf", S_IFREG);
}

void mf_runs_resolve(const char *dir, char path[MF_PATH_MAX])
{
    char to[MF_PATH_MAX / 4];
    ssize_t n = readlink(dir, to, sizeof to - 1);
    /* These characters begin an address; a folder's name can avoid them. */
    snprintf(path, MF_PATH_MAX, "%s%s", strchr("@>*", *dir) ? "./" : "", dir);
    const char *slash = strrchr(path, '/');
    size_t at = slash ? (size_t)(slash + 1 - path) : 0;
    if (n <= 0 || memchr(to, '/', (size_t)n) || at + sizeof to > MF_PATH_MAX)
        return;
    memcpy(path + at, to, (size_t)n);
    path[at + (size_t)n] = 0;
}

int mf_runs_at(struct mf_at *at, const char *path, struct mf_err *err)
{
    char latest[MF_PATH_MAX];
    struct stat st;
    *at = (struct mf_at){.kind = MF_AT_FILE};
    if (stat(path, &st) < 0)
        return mf_err_errno(err, "cannot open %.300s", path);
    if (snprintf(at->path, sizeof at->path, "%s", path) >= MF_PATH_MAX)
        return mf_err_set(err, MF_EUSAGE, "%.80s..: the path is too long", path);
    if (!S_ISDIR(st.st_mode))
        return 0;
    at->kind = mf_runs_is_run(path) ? MF_AT_RUN : MF_AT_FOLDER;
    if (at->kind == MF_AT_RUN || mf_runs_join(latest, path, "latest", err) || lstat(latest, &st) < 0)
        return 0;
    if (stat(latest, &st) < 0)
        return mf_err_errno(err, "cannot open %.300s", latest);
    if (!mf_runs_is_run(latest))
        return 0;
    mf_runs_resolve(latest, at->path);
    at->kind = MF_AT_RUN;
    at->shelf = true;
    return 0;
}

int mf_runs_not_one(const char *dir, struct mf_err *err)
{
    char named[300] = "";
    int n = 0, at = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char below[MF_PATH_MAX];
        struct mf_err ignored;
        if (*e->d_name == '.' || mf_runs_join(below, dir, e->d_name, &ignored) || !mf_runs_is_run(below))
            continue;
        if (n < NAMED && at < (int)sizeof named)
            at += snprintf(named + at, sizeof named - (size_t)at, n ? ", %.60s" : "%.60s", e->d_name);
        n++;
    }
    if (d)
        closedir(d);
    if (n)
        return mf_err_set(err, MF_EUSAGE,
                          "%.150s is not a run and has no link 'latest' to one; name one of the runs in it: %s%s", dir,
                          named, n > NAMED ? ", .." : "");
    return mf_err_set(err, MF_EUSAGE, "%.300s is not a run's folder: it has no checkpoints/ and no logs/metrics.mf",
                      dir);
}

/* ---- numbered checkpoints ---- */

/* -1, or the version in NNNNNN.safetensors. */
static long long version_of(const char *name)
{
    char *end;
    long long v = strtoll(name, &end, 10);
    return end == name || strcmp(end, ".safetensors") != 0 ? -1 : v;
}

/* folder: RUN/checkpoints, or one that holds checkpoints itself. */
static long long each_in(const char *folder, void (*visit)(const char *run, long long v, void *arg), const char *run,
                         void *arg)
{
    DIR *d = opendir(folder);
    long long newest = -1;
    for (struct dirent *e; d && (e = readdir(d));) {
        long long v = version_of(e->d_name);
        newest = v > newest ? v : newest;
        if (v >= 0 && visit)
            visit(run, v, arg);
    }
    if (d)
        closedir(d);
    return newest;
}

long long mf_runs_each(const char *run, void (*visit)(const char *run, long long version, void *arg), void *arg)
{
    char folder[MF_PATH_MAX];
    struct mf_err ignored;
    return mf_runs_join(folder, run, "checkpoints", &ignored) ? -1 : each_in(folder, visit, run, arg);
}

static void version_in(const char *folder, long long version, char path[MF_PATH_MAX])
{
    snprintf(path, MF_PATH_MAX, "%.990s/%06lld.safetensors", folder, version);
}

void mf_runs_version(const char *run, long long version, char path[MF_PATH_MAX])
{
    char folder[MF_PATH_MAX];
    snprintf(folder, sizeof folder, "%.900s/checkpoints", run);
    version_in(folder, version, path);
}

struct search {
    long long below, found;
};

static void find_below(const char *run, long long v, void *arg)
{
    struct search *s = arg;
    (void)run;
    if (v < s->below && v > s->found)
        s->found = v;
}

static bool newest_in(const char *folder, char path[MF_PATH_MAX])
{
    const long long newest = each_in(folder, NULL, NULL, NULL);
    struct search s = {.found = newest};
    while (s.found >= 0) {
        struct mf_safetensors file;
        struct mf_err why;
        version_in(folder, s.found, path);
        if (mf_safetensors_open(&file, path, &why) == 0) {
            mf_safetensors_close(&file);
            return true;
        }
        s = (struct search){.below = s.found, .found = -1};
        each_in(folder, find_below, NULL, &s);
        if (s.found >= 0)
            mf_log(MF_LOG_WARN, "%s; taking the checkpoint before it", why.text);
    }
    if (newest >= 0)
        version_in(folder, newest, path);
    return newest >= 0;
}

bool mf_runs_newest(const char *run, char path[MF_PATH_MAX])
{
    char folder[MF_PATH_MAX];
    struct mf_err ignored;
    return mf_runs_join(folder, run, "checkpoints", &ignored) == 0 && newest_in(folder, path);
}

bool mf_runs_clone(const char *run, char path[MF_PATH_MAX])
{
    snprintf(path, MF_PATH_MAX, "%.900s/checkpoints/clone.safetensors", run);
    return access(path, F_OK) == 0;
}

/* ---- a run's, or a folder's, checkpoints ---- */

/* The folder in which the checkpoints lie. */
static int folder_of(const char *path, char folder[MF_PATH_MAX], struct mf_at *at, struct mf_err *err)
{
    int rc = mf_runs_at(at, path, err);
    if (rc == 0 && at->kind == MF_AT_RUN)
        return mf_runs_join(folder, at->path, "checkpoints", err);
    strcpy(folder, at->path);
    return rc;
}

/* How many; 0 also where the folder is not there, as in a run that has only its metrics. */
static int files_in(const char *folder, void (*visit)(const char *file, void *arg), void *arg)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[MF_PATH_MAX];
        struct stat st;
        struct mf_err ignored;
        if (!mf_ends(e->d_name, ".safetensors") || mf_runs_join(path, folder, e->d_name, &ignored) ||
            lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        visit(path, arg);
        n++;
    }
    if (d)
        closedir(d);
    return n;
}

int mf_runs_files(const char *path, void (*visit)(const char *file, void *arg), void *arg, struct mf_err *err)
{
    char folder[MF_PATH_MAX];
    struct mf_at at;
    int rc = folder_of(path, folder, &at, err);
    if (rc)
        return rc;
    if (at.kind == MF_AT_FILE)
        return mf_err_set(err, MF_EUSAGE, "%.300s is one file: give the folder of a run, or of checkpoints", path);
    if (access(folder, R_OK | X_OK) < 0 && errno != ENOENT)
        return mf_err_errno(err, "cannot open %.300s", folder);
    return files_in(folder, visit, arg) == 0 && at.kind == MF_AT_FOLDER ? mf_runs_not_one(at.path, err) : 0;
}

static void note(const char *file, void *path)
{
    strcpy(path, file);
}

int mf_runs_checkpoint(const char *path, char file[MF_PATH_MAX], struct mf_err *err)
{
    char folder[MF_PATH_MAX];
    struct mf_at at;
    int rc = folder_of(path, folder, &at, err);
    if (rc == 0 && at.kind == MF_AT_FILE)
        strcpy(file, at.path);
    if (rc || at.kind == MF_AT_FILE || newest_in(folder, file))
        return rc;
    if (holds(folder, "clone.safetensors", S_IFREG))
        return mf_runs_join(file, folder, "clone.safetensors", err);
    const int n = files_in(folder, note, file);
    if (n > 1)
        return mf_err_set(err, MF_EUSAGE, "%.300s holds %d checkpoints and none has a number: name one of them", folder,
                          n);
    if (n == 0 && at.kind == MF_AT_FOLDER)
        return mf_runs_not_one(at.path, err);
    return n ? 0 : mf_err_set(err, MF_EUSAGE, "the run %.300s has no checkpoint yet", at.path);
}

void mf_runs_metrics(const char *run, char path[MF_PATH_MAX])
{
    snprintf(path, MF_PATH_MAX, "%.1000s/logs/metrics.mf", run);
}

void mf_runs_video(const char *checkpoint, const char *ending, char *path, size_t size)
{
    static const char room[] = "checkpoints/";
    const int room_n = (int)sizeof room - 1;
    const char *name = strrchr(checkpoint, '/') ? strrchr(checkpoint, '/') + 1 : checkpoint;
    int folder = (int)(name - checkpoint), stem = (int)strcspn(name, ".");
    const bool in_run = folder >= room_n && !strncmp(name - room_n, room, (size_t)room_n);
    snprintf(path, size, "%.*s%s%.*s%s", in_run ? folder - room_n : folder, checkpoint, in_run ? "videos/" : "", stem,
             name, ending);
}

int mf_runs_once(int n, const char *const *words, struct mf_err *err)
{
    char(*file)[MF_PATH_MAX] = mf_xcalloc((size_t)n + 1, sizeof *file);
    const char **path = mf_xcalloc((size_t)n + 1, sizeof *path);
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++, path[i - 1] = file[i - 1])
        rc = mf_runs_checkpoint(words[i], file[i], err);
    rc = rc ? rc : mf_file_once(n, path, err);
    free(path);
    free(file);
    return rc;
}
