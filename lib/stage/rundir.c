#include "stage/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/name.h"
#include "base/publish.h"
#include "base/text.h"

const struct mf_bind mf_rundir_binds[] = {{"run.dir", offsetof(struct mf_rundir_opts, dir)},
                                          {"run.resume", offsetof(struct mf_rundir_opts, resume)},
                                          {"run.force", offsetof(struct mf_rundir_opts, force)},
                                          {"run.wait", offsetof(struct mf_rundir_opts, wait)},
                                          {0}};

static const double GRACE = .2; /* s: a process that only checks for a run in progress holds the lock briefly */

/* made: becomes the first folder that was not there, unless it is one already. */
static int make_all(const char *path, char made[MF_PATH_MAX], struct mf_err *err)
{
    char part[MF_PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        char c = *p;
        if (c && c != '/')
            continue;
        *p = 0;
        const int rc = mkdir(part, 0777);
        if (rc < 0 && errno != EEXIST)
            return mf_err_errno(err, "make the folder %s", part);
        if (rc == 0 && !*made)
            snprintf(made, MF_PATH_MAX, "%s", part);
        *p = c;
        if (!c)
            return 0;
    }
}

/* ---- the lock ---- */

static int open_lock(const char *dir, const char *name, bool *first, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    if (mf_runs_join(path, dir, name, err))
        return err->code;
    *first = access(path, F_OK) < 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666); /* NFS locks what is open for writing */
    return fd < 0 ? mf_err_errno(err, "open %s", path) : fd;
}

/* A restarted run may meet its predecessor, which takes a moment to end. */
static int take_lock(struct mf_rundir *r, const struct mf_rundir_opts *o, struct mf_err *err)
{
    const double wait = o->resume ? o->wait : 0;
    enum mf_lock got;
    int rc = 0;
    if ((r->lock = open_lock(r->path, "lock", &r->locked_first, err)) < 0)
        return err->code;
    if ((rc = mf_lock_wait(r->lock, GRACE, &got, err)) == 0 && got == MF_LOCK_THEIRS && wait > 0) {
        mf_log(MF_LOG_INFO, "%s belongs to a run in progress: waiting up to %g s for its end (run.wait)", r->path,
               wait);
        rc = mf_lock_wait(r->lock, wait, &got, err);
    }
    if (rc == 0 && got == MF_LOCK_THEIRS)
        rc = wait > 0
                 ? mf_err_set(err, MF_EIO, "%s belongs to a run in progress, which has not ended in %g s (run.wait)",
                              r->path, wait)
                 : mf_err_set(err, MF_EIO, "%s belongs to a run in progress; give another run.dir", r->path);
    if (rc) {
        close(r->lock);
        r->lock = -1;
        return rc;
    }
    r->noted = got == MF_LOCK_NONE;
    if (r->noted) {
        mf_log(MF_LOG_WARN, "the file system of %s has no locks (%s): nothing keeps a second run out of this folder",
               r->path, strerror(errno));
        mf_lock_sign(r->lock);
    }
    return 0;
}

bool mf_rundir_is_live(const char *dir)
{
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    int fd = mf_runs_join(path, dir, "lock", &ignored) ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    /* Without locks, only the note shows a holder. */
    const enum mf_lock got = mf_lock_try(fd);
    const bool live = got == MF_LOCK_THEIRS || mf_lock_signer_lives(fd, got == MF_LOCK_NONE);
    close(fd);
    return live;
}

void mf_rundir_sweep(const char *dir)
{
    char path[MF_PATH_MAX + 300];
    struct mf_err ignored;
    DIR *d = mf_runs_join(path, dir, "checkpoints", &ignored) ? NULL : opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/checkpoints/%s", dir, e->d_name);
        if (mf_ends(e->d_name, ".part"))
            unlink(path);
    }
    if (d)
        closedir(d);
}

int mf_rundir_learn(struct mf_rundir *r, const char *dir, double wait, struct mf_err *err)
{
    enum mf_lock got;
    bool ignored;
    *r = (struct mf_rundir){.lock = open_lock(dir, "learner.lock", &ignored, err)};
    if (r->lock < 0)
        return err->code;
    snprintf(r->path, sizeof r->path, "%s", dir);
    int rc = mf_lock_wait(r->lock, wait, &got, err);
    if (rc == 0 && got == MF_LOCK_THEIRS)
        rc = mf_err_set(err, MF_EIO,
                        "the run in %s already has a learner; to train a second one, replay a saved stream", dir);
    if (rc || (rc = mf_rundir_check_saves(dir, err)))
        mf_rundir_close(r);
    else
        mf_rundir_find_shelf(r);
    return rc;
}

/* ---- the place ---- */

/* Made by maniflow: other programs have folders named checkpoints, too. */
static bool is_run(const char *dir)
{
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    return mf_runs_is_run(dir) && mf_runs_join(path, dir, "lock", &ignored) == 0 && access(path, F_OK) == 0;
}

/* The name of a run in the folder; "": none. */
static void run_in(const char *dir, char name[MF_PATH_MAX])
{
    DIR *d = opendir(dir);
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    *name = '\0';
    for (struct dirent *e; d && !*name && (e = readdir(d));)
        if (*e->d_name != '.' && mf_runs_join(path, dir, e->d_name, &ignored) == 0 && is_run(path))
            snprintf(name, MF_PATH_MAX, "%s", e->d_name);
    if (d)
        closedir(d);
}

/* Checks that no parent folder is a run. */
static int check_above(const char *dir, struct mf_err *err)
{
    char above[MF_PATH_MAX];
    snprintf(above, sizeof above, "%s", dir);
    for (char *slash; (slash = strrchr(above, '/')) && slash > above;) {
        *slash = '\0';
        if (is_run(above))
            return mf_err_set(err, MF_EUSAGE, "%.200s lies in the run %.200s; give a run.dir outside of it", dir,
                              above);
    }
    return 0;
}

static int check_place(const char *dir, struct mf_err *err)
{
    char name[MF_PATH_MAX] = "";
    int rc = check_above(dir, err);
    if (rc == 0 && !is_run(dir))
        run_in(dir, name);
    return !*name ? rc
                  : mf_err_set(err, MF_EUSAGE,
                               "%.200s is a folder of runs (such as %.100s), not a run; give run.dir=%.200s/NAME", dir,
                               name, dir);
}

static int choose(struct mf_rundir *r, const char *task, struct mf_err *err)
{
    char stamp[32], name[MF_NAME_BYTES], parent[MF_NAME_BYTES + 16];
    time_t now = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y-%m-%d_%H-%M-%S", localtime_r(&now, &tm));
    mf_name_plain(name, task);
    snprintf(parent, sizeof parent, "outputs/%s", name);
    snprintf(r->path, sizeof r->path, "%s/%s", parent, stamp);
    int rc = check_above(r->path, err);
    if (rc || (rc = make_all(parent, r->made, err)))
        return rc;
    for (int i = 0; i < 100; i++) {
        if (i)
            snprintf(r->path, sizeof r->path, "%s/%s-%d", parent, stamp, i);
        if (mkdir(r->path, 0777) == 0) {
            if (!*r->made)
                strcpy(r->made, r->path);
            return 0;
        }
        if (errno != EEXIST)
            return mf_err_errno(err, "make the folder %s", r->path);
    }
    return mf_err_set(err, MF_EIO, "%s already has 100 runs of this second; give run.dir", parent);
}

/* The existing run is resumed, as the same kind, or removed. */
static int check_use(const struct mf_rundir *r, const struct mf_rundir_opts *o, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    const bool numbered = mf_runs_each(r->path, NULL, NULL) >= 0, clone = mf_runs_clone(r->path, path);
    if (o->force || !(numbered || clone))
        return 0;
    if (o->clones ? !clone : !numbered)
        return mf_err_set(
            err, MF_EUSAGE,
            "%s is a run of %s, which %s cannot continue; give another run.dir, or overwrite it with run.force=true",
            r->path, clone ? "mf-bc" : "reinforcement learning", o->clones ? "mf-bc" : "reinforcement learning");
    if (!o->resume)
        return mf_err_set(
            err, MF_EUSAGE,
            "%s already holds a run; continue it with run.resume=auto, or overwrite it with run.force=true", r->path);
    return 0;
}

static const char *const rooms[] = {"checkpoints", "logs", "configs", "videos"};

static int settle(struct mf_rundir *r, const struct mf_rundir_opts *o, struct mf_err *err)
{
    int rc = check_use(r, o, err);
    for (int i = 0; i < 4 && rc == 0; i++) {
        char path[MF_PATH_MAX], made[MF_PATH_MAX] = "";
        if ((rc = mf_runs_join(path, r->path, rooms[i], err)) == 0)
            rc = make_all(path, made, err);
        r->rooms |= *made ? 1u << i : 0;
    }
    return rc ? rc : mf_rundir_check_saves(r->path, err);
}

/* A learner that ended may leave its lock's file. */
static void remove_locks(const char *dir)
{
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    int fd = mf_runs_join(path, dir, "learner.lock", &ignored) ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && mf_lock_try(fd) == MF_LOCK_OURS)
        unlink(path);
    if (fd >= 0)
        close(fd);
    if (mf_runs_join(path, dir, "lock", &ignored) == 0)
        unlink(path);
}

/* Removes what opening has made, down to what others use. */
static void unmake(struct mf_rundir *r)
{
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    for (int i = 0; i < 4; i++)
        if (r->rooms >> i & 1 && (mf_runs_join(path, r->path, rooms[i], &ignored) || rmdir(path) < 0))
            return;
    if (r->locked_first)
        remove_locks(r->path);
    snprintf(path, sizeof path, "%s", r->path);
    while (*r->made && rmdir(path) == 0 && strcmp(path, r->made) != 0)
        *strrchr(path, '/') = '\0';
}

/* Did the process that held the lock remove its file? */
static bool is_gone(int lock)
{
    struct stat st;
    return fstat(lock, &st) == 0 && st.st_nlink == 0;
}

int mf_rundir_open(struct mf_rundir *r, const struct mf_rundir_opts *o, struct mf_err *err)
{
    int rc = 0;
    *r = (struct mf_rundir){.lock = -1, .forget = o->force && !o->resume};
    if (o->dir && strlen(o->dir) > 900)
        return mf_err_set(err, MF_EUSAGE, "run.dir=%.80s..: the path is too long", o->dir);
    if (o->dir) {
        mf_runs_resolve(o->dir, r->path);
        rc = check_place(r->path, err);
    } else {
        rc = choose(r, o->task, err);
    }
    do {
        if (r->lock >= 0)
            close(r->lock);
        if (rc || (rc = make_all(r->path, r->made, err)) || (rc = take_lock(r, o, err)))
            return rc;
    } while (is_gone(r->lock));
    if ((rc = settle(r, o, err))) {
        mf_rundir_close(r);
        return rc;
    }
    mf_rundir_find_shelf(r);
    return 0;
}

void mf_rundir_close(struct mf_rundir *r)
{
    if (r->lock < 0)
        return;
    unmake(r);
    if (r->noted)
        mf_lock_unsign(r->lock);
    close(r->lock);
    r->lock = -1;
}

/* ---- the run's own files ---- */

void mf_rundir_accepted(struct mf_rundir *r)
{
    char path[MF_PATH_MAX], machine[600];
    struct mf_err why;
    *r->made = '\0'; /* it stays */
    r->rooms = 0;
    r->locked_first = false;
    mf_machine(machine, sizeof machine - 1);
    strcat(machine, "\n");
    snprintf(path, sizeof path, "%.900s/configs/machine", r->path);
    if (mf_publish_bytes(path, machine, strlen(machine), &why))
        mf_log(MF_LOG_WARN, "%s", why.text);
    if (r->forget)
        mf_rundir_forget(r->path);
    r->forget = false;
}

static void keep_configuration(const char *dir, const char *program, const struct mf_conf *conf)
{
    char path[MF_PATH_MAX], *text;
    size_t n;
    struct mf_err why;
    FILE *f = open_memstream(&text, &n);
    if (f)
        mf_conf_print(conf, f);
    snprintf(path, sizeof path, "%.900s/configs/%s.yaml", dir, program);
    if (mf_publish_printed(path, f, &text, &n, &why))
        mf_log(MF_LOG_WARN, "%s", why.text);
}

bool mf_rundir_join(const char *dir, const char *program, const struct mf_conf *conf)
{
    static const double patience = 3; /* s for a killed learner to end */
    char path[MF_PATH_MAX];
    enum mf_lock got = MF_LOCK_OURS;
    struct mf_err ignored;
    snprintf(path, sizeof path, "%.900s/logs/%s.log", dir, program);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (log >= 0 && (mf_lock_wait(log, patience, &got, &ignored) || got == MF_LOCK_THEIRS)) {
        mf_log(MF_LOG_WARN, "the run in %s already has a running %s: this one writes no log and no configuration there",
               dir, program);
        close(log);
        return false;
    }
    keep_configuration(dir, program, conf);
    mf_log_tee(log);
    return true;
}
