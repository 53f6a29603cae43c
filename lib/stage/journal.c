#include "stage/journal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/publish.h"
#include "run/history.h"
#include "stage/rundir.h"
#include "wire/port.h"

struct mf_journal {
    struct mf_port *port;
    int64_t frames;
    double spent;
};

/* A frame of an earlier part of the run, with its time in the whole run. */
static int put_old(struct mf_journal *j, struct mf_elapsed *elapsed, struct mf_frame *f, struct mf_err *err)
{
    struct mf_err ignored;
    double time;
    if (mf_frame_get_num(f, "time", &time, &ignored) == 0 && isfinite(time)) {
        j->spent = mf_elapsed_at(elapsed, time);
        if (j->spent != time)
            mf_frame_set_num(f, "time", j->spent);
    }
    return mf_journal_put(j, f, err);
}

/* Copies the frames of earlier parts of the run, up to iter; a truncated or foreign file is not continued. */
static int keep_old(struct mf_journal *j, const char *path, int64_t iter, struct mf_err *err)
{
    struct mf_port *old;
    struct mf_err ignored;
    struct mf_frame *f;
    struct mf_elapsed elapsed = {0};
    int rc = 0, fd = iter ? mf_file_open(path, &ignored) : -1;
    if (fd >= 0)
        close(fd);
    if (fd < 0 || mf_port_open(&old, path, MF_IN, NULL, &ignored))
        return 0;
    while (rc == 0 && mf_frame_recv(old, NULL, &f, &ignored) == 1) {
        int64_t at;
        if (mf_frame_kind(f) == MF_METRICS && mf_frame_get_int(f, "iter", &at, &ignored) == 0 && at < iter)
            rc = put_old(j, &elapsed, f, err);
        mf_frame_free(f);
    }
    mf_port_drop(old);
    return rc;
}

int mf_journal_open(struct mf_journal **out, const char *dir, const struct mf_frame *head, int64_t iter,
                    struct mf_err *err)
{
    char path[MF_PATH_MAX], part[MF_PATH_MAX];
    struct mf_journal *j = mf_xcalloc(1, sizeof *j);
    mf_runs_metrics(dir, path);
    snprintf(part, sizeof part, "%.1000s/logs/metrics.part", dir);
    unlink(part); /* left by a killed run, or no file */
    int rc = mf_port_open(&j->port, part, MF_OUT, NULL, err);
    if (rc || (rc = mf_journal_put(j, head, err)) || (rc = keep_old(j, path, iter, err)) ||
        (rc = mf_publish(part, path, err))) {
        mf_port_drop(j->port);
        unlink(part);
        free(j);
        return rc;
    }
    *out = j;
    return 0;
}

double mf_journal_spent(const struct mf_journal *j)
{
    return j->spent;
}

int mf_journal_put(struct mf_journal *j, const struct mf_frame *f, struct mf_err *err)
{
    int rc = mf_frame_send(j->port, f, err);
    j->frames += rc == 0;
    return rc;
}

int mf_journal_close(struct mf_journal *j, bool ended, struct mf_err *err)
{
    int rc = 0;
    if (!j)
        return 0;
    if (ended) {
        struct mf_frame *end = mf_frame_new(MF_END);
        mf_frame_set_str(end, "src", "");
        mf_frame_set_int(end, "frames", j->frames);
        mf_frame_set_int(end, "samples", 0);
        mf_frame_set_bool(end, "stopped", false);
        rc = mf_frame_send(j->port, end, err);
        mf_frame_free(end);
    }
    int rc2 = mf_port_close(j->port, err);
    free(j);
    return rc ? rc : rc2;
}
