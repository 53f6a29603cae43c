/* history.h - a run's metrics as columns over its iterations, also while they are still being written.
 *
 * Follows a journal (logs/metrics.mf of a run's folder), any saved stream of metrics, or stdin, and never blocks:
 * mf_history_more reads the bytes added since. A resumed run replaces its journal by a new one, which is then read from
 * its start, so that steps never go backwards.
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

/* Seconds of training so far, from the `time` of metrics frames in order. Where the time falls, an older version was
 * resumed, which counted from 0 again: the sum continues. Zeroed: before the first frame. */
struct mf_elapsed {
    double last, before;
};
double mf_elapsed_at(struct mf_elapsed *e, double time);

struct mf_history {
    char run[1024]; /* the run's folder: as given, else from the head; "": unknown */
    size_t n;       /* metrics frames so far */
    double *iter;   /* (n) iterations, from 0 */
    double *step;   /* (n) control steps */
    double *time;   /* (n) seconds of training of the run so far */
    int n_series;   /* of series */
    struct mf_series *series;
    bool ended;            /* the end frame was read */
    bool failed;           /* instead of an end, a frame that an upstream program failed, which has reported why */
    struct mf_frame *head; /* the stream's head; NULL: not read yet */

    char path[1024]; /* private from here on */
    int fd;          /* -1: the file is not there yet */
    ino_t inode;
    unsigned char *bytes;
    size_t have, room, cap;
    struct mf_elapsed elapsed;
};

/* A run or a shelf (runs.h), a file of metrics, or "-". A journal may not exist yet. */
int mf_history_open(struct mf_history *h, const char *path, struct mf_err *err);
void mf_history_close(struct mf_history *h); /* safe on a zeroed one */
/* Reads the bytes added since: 1 some, 0 none (at the end of a pipe too: see hung_up); MF_EFORMAT, also where the
 * journal is a pipe or a device; MF_EIO. */
int mf_history_more(struct mf_history *h, bool *hung_up, struct mf_err *err);
/* Adds a metrics frame from another reader; ignores other kinds. */
int mf_history_take(struct mf_history *h, const struct mf_frame *f, struct mf_err *err);
const double *mf_history_find(const struct mf_history *h, const char *series); /* (n), or NULL */
double mf_history_last(const struct mf_history *h, const char *series);        /* its newest value; NaN: it has none */

#endif
