/* rundir_versions.c - a run's numbered checkpoints: can they be saved, what was measured of them, which are kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/publish.h"
#include "stream/frame_json.h"
#include "stage/rundir.h"

struct pruning {
    long long first_kept, every, interval, first_permanent;
};

static void note_path(const char *dir, long long version, char path[MF_PATH_MAX])
{
    mf_runs_version(dir, version, path);
    snprintf(strrchr(path, '.'), sizeof ".json", ".json");
}

static void remove_one(const char *dir, long long v, void *arg)
{
    char path[MF_PATH_MAX];
    (void)arg;
    mf_runs_version(dir, v, path);
    unlink(path);
    note_path(dir, v, path);
    unlink(path);
}

static void prune_one(const char *dir, long long v, void *arg)
{
    const struct pruning *p = arg;
    const bool permanent = v % p->every == 0 && v % p->interval < p->every && v >= p->first_permanent;
    if (v < p->first_kept && !permanent)
        remove_one(dir, v, NULL);
}

void mf_rundir_prune(const char *dir, long long version, const struct mf_rundir_kept *k)
{
    const long long interval = k->interval > k->every ? k->interval : k->every, n = version / interval;
    struct pruning p = {.first_kept = version - (k->newest - 1) * k->every,
                        .every = k->every,
                        .interval = interval,
                        .first_permanent = k->most && k->most < n ? (n - k->most + 1) * interval : 0};
    mf_runs_each(dir, prune_one, &p);
}

void mf_rundir_forget(const char *dir)
{
    char clone[MF_PATH_MAX];
    mf_runs_each(dir, remove_one, NULL);
    if (mf_runs_clone(dir, clone))
        unlink(clone);
}

void mf_rundir_note(const char *dir, long long version, const struct mf_frame *metrics, const struct mf_frame *head)
{
    char path[MF_PATH_MAX], *text;
    size_t n;
    struct mf_err why;
    FILE *f = open_memstream(&text, &n);
    if (f) {
        fputs("{\"metrics\": ", f);
        mf_frame_json(metrics, MF_ARRAYS_NONE, f);
        fputs(", \"head\": ", f);
        mf_frame_json(head, MF_ARRAYS_NONE, f);
        fputs("}\n", f);
    }
    note_path(dir, version, path);
    if (mf_publish_printed(path, f, &text, &n, &why))
        mf_log(MF_LOG_WARN, "%s", why.text);
}

/* A save that fails after hours loses them. A file without a name leaves the folder as it is. */
int mf_rundir_check_saves(const char *dir, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    int rc = mf_runs_join(path, dir, "checkpoints", err);
    if (rc)
        return rc;
    const int fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    else if ((errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) || access(path, W_OK | X_OK) < 0)
        return mf_err_errno(err, "cannot save checkpoints in %s", path);
    return 0;
}

void mf_rundir_say_anew(const char *dir)
{
    char path[MF_PATH_MAX];
    mf_runs_metrics(dir, path);
    if (access(path, F_OK) == 0)
        mf_log(MF_LOG_WARN, "%s has metrics of an earlier start, but no checkpoint to resume: the run starts anew",
               dir);
}
