#include "run/history.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/plain.h"
#include "stream/frame.h"
#include "run/runs.h"
#include "wire/token.h"

enum { CHUNK = 1 << 16 };

int mf_history_open(struct mf_history *h, const char *path, struct mf_err *err)
{
    struct mf_at at;
    *h = (struct mf_history){.fd = strcmp(path, "-") ? -1 : STDIN_FILENO};
    snprintf(h->path, sizeof h->path, "%s", path);
    if (h->fd >= 0)
        return 0;
    int rc = mf_runs_at(&at, path, err);
    if (rc || at.kind == MF_AT_FILE)
        return rc;
    if (at.kind == MF_AT_FOLDER)
        return mf_runs_not_one(path, err);
    snprintf(h->run, sizeof h->run, "%s", at.path);
    mf_runs_metrics(at.path, h->path);
    return 0;
}

double mf_elapsed_at(struct mf_elapsed *e, double time)
{
    e->before += time < e->last ? e->last : 0;
    e->last = isfinite(time) ? time : e->last;
    return e->before + time;
}

static void forget(struct mf_history *h)
{
    for (int i = 0; i < h->n_series; i++)
        free(h->series[i].value);
    free(h->series);
    free(h->iter);
    free(h->step);
    free(h->time);
    h->series = NULL;
    h->iter = h->step = h->time = NULL;
    h->n = h->cap = h->have = 0;
    h->n_series = 0;
    h->ended = false;
    h->elapsed = (struct mf_elapsed){0};
    mf_frame_free(h->head);
    h->head = NULL;
}

void mf_history_close(struct mf_history *h)
{
    forget(h);
    free(h->bytes);
    if (h->fd > STDIN_FILENO)
        close(h->fd);
    *h = (struct mf_history){.fd = -1};
}

const double *mf_history_find(const struct mf_history *h, const char *series)
{
    for (int i = 0; i < h->n_series; i++)
        if (!strcmp(h->series[i].name, series))
            return h->series[i].value;
    return NULL;
}

double mf_history_last(const struct mf_history *h, const char *series)
{
    const double *v = mf_history_find(h, series);
    for (size_t i = h->n; v && i-- > 0;)
        if (!isnan(v[i]))
            return v[i];
    return NAN;
}

/* ---- frames ---- */

static void grow(struct mf_history *h)
{
    if (h->n < h->cap)
        return;
    h->cap = h->cap ? 2 * h->cap : 64;
    h->iter = mf_xrealloc(h->iter, h->cap, sizeof *h->iter);
    h->step = mf_xrealloc(h->step, h->cap, sizeof *h->step);
    h->time = mf_xrealloc(h->time, h->cap, sizeof *h->time);
    for (int i = 0; i < h->n_series; i++)
        h->series[i].value = mf_xrealloc(h->series[i].value, h->cap, sizeof(double));
}

/* The column of a name; a new one is NaN up to here. */
static double *column(struct mf_history *h, const char *name)
{
    for (int i = 0; i < h->n_series; i++)
        if (!strcmp(h->series[i].name, name))
            return h->series[i].value;
    h->series = mf_xrealloc(h->series, (size_t)h->n_series + 1, sizeof *h->series);
    struct mf_series *s = &h->series[h->n_series++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->value = mf_xcalloc(h->cap, sizeof(double));
    for (size_t i = 0; i < h->n; i++)
        s->value[i] = NAN;
    return s->value;
}

int mf_history_take(struct mf_history *h, const struct mf_frame *f, struct mf_err *err)
{
    int rc;
    if (mf_frame_kind(f) != MF_METRICS)
        return 0;
    grow(h);
    if ((rc = mf_frame_get_num(f, "iter", &h->iter[h->n], err)) ||
        (rc = mf_frame_get_num(f, "step", &h->step[h->n], err)) ||
        (rc = mf_frame_get_num(f, "time", &h->time[h->n], err)))
        return rc;
    h->time[h->n] = mf_elapsed_at(&h->elapsed, h->time[h->n]);
    for (int i = 0; i < h->n_series; i++)
        h->series[i].value[h->n] = NAN;
    for (int i = 0; i < mf_frame_count(f, "values"); i++) {
        const char *name = mf_frame_key(f, "values", i);
        char path[80], plain[sizeof h->series->name];
        if (!name || strlen(name) >= sizeof h->series->name || strchr(name, '.'))
            continue;
        snprintf(path, sizeof path, "values.%s", name);
        plain[mf_plain_copy(plain, name, strlen(name))] = '\0';
        if ((rc = mf_frame_get_num(f, path, &column(h, plain)[h->n], err)))
            return rc;
    }
    h->n++;
    return 0;
}

static int take(struct mf_history *h, const void *bytes, size_t len, struct mf_err *err)
{
    struct mf_frame *f;
    const char *run;
    struct mf_err ignored;
    int rc = mf_frame_decode(&f, bytes, len, err);
    if (rc)
        return rc;
    rc = mf_frame_kind(f) == MF_ROLLOUT
             ? mf_err_set(err, MF_EFORMAT, "a stream of rollouts has no metrics: give that of a learner, as mf-ppo")
             : mf_history_take(h, f, err);
    if (mf_frame_kind(f) == MF_HEAD && !*h->run && mf_frame_get_str(f, "run", &run, &ignored) == 0)
        snprintf(h->run, sizeof h->run, "%s", run);
    h->ended |= mf_frame_kind(f) == MF_END;
    h->failed |= mf_frame_kind(f) == MF_FAILED;
    if (mf_frame_kind(f) == MF_HEAD && !h->head)
        h->head = mf_frame_keep(f);
    mf_frame_free(f);
    return rc;
}

/* Every whole frame of the bytes; what is left is the start of the next one. */
static int take_all(struct mf_history *h, struct mf_err *err)
{
    size_t at = 0;
    int rc = 0;
    while (rc == 0) {
        struct mf_scan s;
        mf_scan_start(&s);
        int whole = mf_scan_more(&s, h->bytes + at, h->have - at, MF_FRAME_MAX);
        if (whole == 0)
            break;
        rc = whole < 0 ? mf_err_set(err, MF_EFORMAT, "frame %zu is no MessagePack", h->n + 1)
                       : take(h, h->bytes + at, s.at, err);
        at += s.at;
    }
    if (rc)
        return mf_err_at(err, "%s", h->path);
    memmove(h->bytes, h->bytes + at, h->have - at);
    h->have -= at;
    return 0;
}

/* ---- bytes ---- */

/* A journal that has appeared, or replaced the one that was followed. */
static int follow(struct mf_history *h, struct mf_err *err)
{
    struct stat st;
    if (h->fd == STDIN_FILENO || stat(h->path, &st) < 0 || (h->fd >= 0 && st.st_ino == h->inode))
        return 0;
    if (h->fd >= 0)
        close(h->fd);
    forget(h);
    h->fd = mf_file_open(h->path, err);
    h->inode = st.st_ino;
    return h->fd < 0 ? err->code : 0;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

int mf_history_more(struct mf_history *h, bool *hung_up, struct mf_err *err)
{
    const size_t before = h->n, ended = h->ended;
    *hung_up = false;
    if (follow(h, err))
        return err->code;
    while (h->fd >= 0 && readable(h->fd)) {
        if (h->room - h->have < CHUNK)
            h->bytes = mf_xrealloc(h->bytes, h->room = 2 * h->room + CHUNK, 1);
        ssize_t n = read(h->fd, h->bytes + h->have, CHUNK);
        if (n < 0 && errno != EINTR)
            return mf_err_errno(err, "read %s", h->path);
        if (n == 0) {
            *hung_up = h->fd == STDIN_FILENO;
            break;
        }
        h->have += n > 0 ? (size_t)n : 0;
        int rc = take_all(h, err);
        if (rc)
            return rc;
    }
    return h->n != before || h->ended != ended;
}
