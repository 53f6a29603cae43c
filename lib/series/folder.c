#include "series/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/name.h"
#include "base/stop.h"

enum { PATIENCE = 5000 }; /* ms for the writer of a killed run to end */
enum found { OURS, BUSY, OTHERS };

static const char unknown[] = "a run that is not recorded";

static bool has_logs(const char *dir)
{
    static const char *const names[] = {"metrics.csv", "metrics.jsonl", "metrics.prom"};
    char path[1100];
    bool any = false;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        any |= access(path, F_OK) == 0;
    }
    return any;
}

static int read_record(int fd, char *whose, size_t size, struct mf_err *err)
{
    const ssize_t n = pread(fd, whose, size - 1, 0);
    whose[n > 0 ? n : 0] = '\0';
    whose[strcspn(whose, "\n")] = '\0';
    return n < 0 ? mf_err_errno(err, "read metrics.run") : 0;
}

static int write_record(int fd, const char *run, struct mf_err *err)
{
    char line[1024];
    const int n = snprintf(line, sizeof line, "%.1000s\n", *run ? run : "a stream that names no run");
    return pwrite(fd, line, (size_t)n, 0) == n ? 0 : mf_err_errno(err, "write metrics.run");
}

/* The owner by the record in f->path. OURS: the lock is held; a file system without locks has only the record. */
static int look(struct mf_series_folder *f, const char *run, enum found *found, struct mf_err *err)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/metrics.run", f->path);
    f->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (f->lock < 0)
        return mf_err_errno(err, "open %s", path);
    const bool busy = mf_lock_try(f->lock) == MF_LOCK_THEIRS;
    int rc = read_record(f->lock, f->whose, sizeof f->whose, err);
    if (rc)
        return rc;
    const bool same = !run || (*run && !strcmp(f->whose, run));
    if (!same && !*f->whose && !busy && has_logs(f->path)) {
        unlink(path);
        strcpy(f->whose, unknown);
    }
    *found = *f->whose && !same ? OTHERS : busy ? BUSY : OURS;
    if (*found != OURS || *f->whose)
        return 0;
    return write_record(f->lock, run ? run : f->path, err);
}

/* As look, but waits for a writer that is about to end. */
static int look_long(struct mf_series_folder *f, const char *run, enum found *found, struct mf_err *err)
{
    for (int waited = 0;; waited += MF_STOP_TICK) {
        int rc = look(f, run, found, err);
        if (rc == 0 && *found == OURS)
            return 0;
        mf_series_folder_leave(f);
        if (rc || *found == OTHERS || (rc = mf_stop_check(err)))
            return rc;
        if (waited >= PATIENCE)
            return mf_err_set(err, MF_EIO, "another program is writing the logs in %.300s; give log.dir=DIR", f->path);
        usleep(1000 * MF_STOP_TICK);
    }
}

/* The n-th candidate subfolder of dir for this run: true if it is new or holds logs. */
static bool below(struct mf_series_folder *f, const char *dir, const char *name, int n)
{
    char plain[MF_NAME_BYTES], record[1100];
    mf_name_plain(plain, *name ? name : "stream");
    snprintf(f->path, sizeof f->path, n ? "%.900s/%s-%d" : "%.900s/%s", dir, plain, n + 1);
    snprintf(record, sizeof record, "%s/metrics.run", f->path);
    return mkdir(f->path, 0777) == 0 || (errno == EEXIST && access(record, F_OK) == 0);
}

int mf_series_folder_take(struct mf_series_folder *f, const char *dir, const char *run, const char *name,
                          struct mf_err *err)
{
    enum { TRIES = 100 };
    enum found found;
    char first[sizeof f->whose];
    snprintf(f->path, sizeof f->path, "%.1000s", dir);
    int rc = look_long(f, run, &found, err);
    snprintf(first, sizeof first, "%s", rc == 0 && found == OTHERS ? f->whose : "");
    for (int n = 0; rc == 0 && found == OTHERS; n++) {
        if (n == TRIES)
            return mf_err_set(err, MF_EIO, "%.300s has the logs of %.300s, and no subfolder can be created", dir,
                              first);
        if (below(f, dir, name, n))
            rc = look_long(f, run, &found, err);
    }
    strcpy(f->whose, first);
    return rc;
}

void mf_series_folder_leave(struct mf_series_folder *f)
{
    if (f->lock > 0)
        close(f->lock);
    f->lock = 0;
}
