#include "stage/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "data/json.h"

static int join(char path[MF_PATH_MAX], const char *dir, const char *name, struct mf_err *err)
{
    if (snprintf(path, MF_PATH_MAX, "%s/%s", dir, name) >= MF_PATH_MAX)
        return mf_err_set(err, MF_EUSAGE, "run.dir=%.80s..: the path is too long", dir);
    return 0;
}

static int make_all(const char *path, struct mf_err *err)
{
    char part[MF_PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        char c = *p;
        if (c && c != '/')
            continue;
        *p = 0;
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return mf_err_errno(err, "make the folder %s", part);
        *p = c;
        if (!c)
            return 0;
    }
}

struct pruning {
    long long first_kept, every;
};

static void remove_one(const char *dir, long long v)
{
    char path[MF_PATH_MAX];
    mf_runs_version(dir, v, path);
    unlink(path);
    snprintf(strrchr(path, '.'), sizeof ".json", ".json");
    unlink(path);
}

static void prune_one(const char *dir, long long v, void *arg)
{
    const struct pruning *p = arg;
    if (v >= p->first_kept || (p->every > 0 && v % p->every == 0))
        return;
    remove_one(dir, v);
}

void mf_rundir_note(const char *dir, long long version, const struct mf_frame *metrics, const struct mf_frame *head)
{
    char path[MF_PATH_MAX];
    mf_runs_version(dir, version, path);
    snprintf(strrchr(path, '.'), sizeof ".json", ".json");
    FILE *f = fopen(path, "we");
    if (!f)
        return;
    fputs("{\"metrics\": ", f);
    mf_frame_json(metrics, MF_ARRAYS_NONE, f);
    fputs(", \"head\": ", f);
    mf_frame_json(head, MF_ARRAYS_NONE, f);
    fputs("}\n", f);
    bool bad = ferror(f);
    if (fclose(f) || bad)
        unlink(path);
}

void mf_rundir_prune(const char *dir, long long newest, int keep, long long every)
{
    struct pruning p = {.first_kept = newest - keep + 1, .every = every};
    mf_runs_each(dir, prune_one, &p);
}

/* The folder that it writes is its lock: the run's own is the collector's. */
int mf_rundir_learn(struct mf_rundir *r, const char *dir, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    int rc = join(path, dir, "checkpoints", err);
    if (rc)
        return rc;
    snprintf(r->path, sizeof r->path, "%s", dir);
    if ((r->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return mf_err_errno(err, "open %s", path);
    if (flock(r->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    mf_rundir_close(r);
    return mf_err_set(err, MF_EIO, "the run in %s has a learner already; replay a saved stream for a second one", dir);
}

bool mf_rundir_is_live(const char *dir)
{
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    int fd = join(path, dir, "lock", &ignored) ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

void mf_rundir_join(const char *dir, const char *program, const struct mf_conf *conf)
{
    char path[MF_PATH_MAX];
    snprintf(path, sizeof path, "%.900s/configs/%s.yaml", dir, program);
    FILE *f = fopen(path, "we");
    if (f) {
        mf_conf_print(conf, f);
        fclose(f);
    }
    snprintf(path, sizeof path, "%.900s/logs/%s.log", dir, program);
    mf_log_tee(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

static int choose(struct mf_rundir *r, const char *task, struct mf_err *err)
{
    char stamp[32], parent[64];
    time_t now = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y-%m-%d_%H-%M-%S", localtime_r(&now, &tm));
    snprintf(parent, sizeof parent, "outputs/%s", task);
    int rc = make_all(parent, err);
    if (rc)
        return rc;
    for (int i = 0; i < 100; i++) {
        snprintf(r->path, sizeof r->path, "%s/%s", parent, stamp);
        if (i)
            snprintf(r->path, sizeof r->path, "%s/%s-%d", parent, stamp, i);
        if (mkdir(r->path, 0777) == 0)
            return 0;
        if (errno != EEXIST)
            return mf_err_errno(err, "make the folder %s", r->path);
    }
    return mf_err_set(err, MF_EIO, "outputs/%s has a hundred runs of this second; give run.dir", task);
}

void mf_rundir_begun(struct mf_rundir *r)
{
    char fresh[MF_PATH_MAX + 32];
    if (!*r->link)
        return;
    snprintf(fresh, sizeof fresh, "%s.%ld", r->link, (long)getpid());
    if (symlink(strrchr(r->path, '/') + 1, fresh) == 0 && rename(fresh, r->link) < 0)
        unlink(fresh);
    *r->link = 0;
}

static int take_lock(struct mf_rundir *r, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    int rc = join(path, r->path, "lock", err);
    if (rc)
        return rc;
    r->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock < 0)
        return mf_err_errno(err, "open %s", path);
    if (flock(r->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    mf_rundir_close(r);
    return mf_err_set(err, MF_EIO, "%s belongs to a run that is going on; give another run.dir", r->path);
}

static void forget(const char *dir, long long v, void *arg)
{
    (void)arg;
    remove_one(dir, v);
}

static void note_machine(const char *dir)
{
    char path[MF_PATH_MAX], machine[600];
    snprintf(path, sizeof path, "%.900s/configs/machine", dir);
    mf_machine(machine, sizeof machine);
    FILE *f = fopen(path, "we");
    if (f) {
        fprintf(f, "%s\n", machine);
        fclose(f);
    }
}

static int settle(struct mf_rundir *r, bool resume, bool force, struct mf_err *err)
{
    static const char *const rooms[] = {"checkpoints", "logs", "configs", "videos"};
    char path[MF_PATH_MAX];
    int rc = 0;
    if (!resume && !force && mf_runs_each(r->path, NULL, NULL) >= 0)
        return mf_err_set(err, MF_EUSAGE,
                          "%s was used before; continue it with run.resume=auto, or lose it with run.force=true",
                          r->path);
    for (int i = 0; i < 4; i++)
        if ((rc = join(path, r->path, rooms[i], err)) || (rc = make_all(path, err)))
            return rc;
    note_machine(r->path);
    if (force && !resume) {
        mf_runs_each(r->path, forget, NULL);
        rc = join(path, r->path, "logs/metrics.mf", err);
        unlink(path);
    }
    return rc;
}

int mf_rundir_open(struct mf_rundir *r, const char *dir, const char *task, bool resume, bool force, struct mf_err *err)
{
    *r = (struct mf_rundir){.lock = -1};
    int rc = 0;
    if (dir && strlen(dir) > 900)
        return mf_err_set(err, MF_EUSAGE, "run.dir=%.80s..: the path is too long", dir);
    if (dir) {
        mf_runs_resolve(dir, r->path);
        rc = make_all(r->path, err);
    } else {
        rc = choose(r, task, err);
    }
    if (rc || (rc = take_lock(r, err)))
        return rc;
    if ((rc = settle(r, resume, force, err))) {
        mf_rundir_close(r);
        return rc;
    }
    if (!dir)
        snprintf(r->link, sizeof r->link, "outputs/%s/latest", task);
    return 0;
}

void mf_rundir_close(struct mf_rundir *r)
{
    if (r->lock >= 0)
        close(r->lock);
    r->lock = -1;
}
