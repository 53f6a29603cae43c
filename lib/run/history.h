/* history.h - a run's metrics as columns over its iterations, also while they are still being written.
 *
 * Follows a journal (logs/metrics.mf of a run's folder), any saved stream of
 * metrics, or stdin, without ever waiting: mf_history_more takes what has come
 * since. A run that was resumed has a new journal in the place of the old one,
 * which is then read from its start, so steps never go backwards.
 */
#ifndef MF_RUN_HISTORY_H
#define MF_RUN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct mf_frame;

struct mf_series { /* one column: a value for each iteration, NaN where it has none */
    char name[64]; /* "train/approx_kl"; a control character in it is a '?' */
    double *value; /* (n) */
};

/* Seconds of training so far, from the `time` of metrics frames in their order. A time that falls is a resume of an
 * older version, which counted from 0 anew: it goes on from what was there. Zeroed: before the first frame. */
struct mf_elapsed {
    double last, before;
};
double mf_elapsed_at(struct mf_elapsed *e, double time);

struct mf_history {
    char run[1024]; /* the run's folder: the one that was given, else as the head names it; "": unknown */
    size_t n;       /* metrics frames so far */
    double *iter;   /* (n) iterations, from 0 */
    double *step;   /* (n) control steps */
    double *time;   /* (n) seconds of training of the run so far */
    int n_series;   /* of series */
    struct mf_series *series;
    bool ended;            /* its end frame has come */
    bool failed;           /* in its place the word that a program before failed, which has said why */
    struct mf_frame *head; /* the stream's, with where it comes from; NULL: not there yet */

    char path[1024]; /* private from here on */
    int fd;          /* -1: the file is not there yet */
    ino_t inode;
    unsigned char *bytes;
    size_t have, room, cap;
    struct mf_elapsed elapsed;
};

/* A run or a shelf (data/runs.h), a file of metrics, or "-". A journal that is not there yet is fine. */
int mf_history_open(struct mf_history *h, const char *path, struct mf_err *err);
void mf_history_close(struct mf_history *h); /* safe on a zeroed one */
/* What came since: 1 there was something, 0 nothing (at the end of a pipe too: see hung_up), or MF_EFORMAT, also where
 * the journal is a pipe or a device; MF_EIO. */
int mf_history_more(struct mf_history *h, bool *hung_up, struct mf_err *err);
/* One metrics frame of another reader's; others are passed over. */
int mf_history_take(struct mf_history *h, const struct mf_frame *f, struct mf_err *err);
const double *mf_history_find(const struct mf_history *h, const char *series); /* (n), or NULL */
double mf_history_last(const struct mf_history *h, const char *series);        /* its newest value; NaN: it has none */

#endif
