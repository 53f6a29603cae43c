/* workdir.h - the folder that a learner writes: that of the run whose stream it reads, while that is in progress, or
 * one of its own; and what learning starts from there.
 */
#ifndef MF_STAGE_WORKDIR_H
#define MF_STAGE_WORKDIR_H

#include <stdint.h>

#include "stage/rundir.h"

struct mf_workdir { /* zeroed: none */
    char path[MF_PATH_MAX];
    bool live; /* the stream's run is in progress, and this is its one learner */
    bool own;  /* path is a folder of our own */
    struct mf_rundir stream, mine;
};

/* o->dir NULL: the stream's run, else a new folder below outputs/offline. saved: the stream comes out of a file, whose
 * run is none of ours even if it is in progress. serves: its collectors have no folder and find the learner by an
 * address, so this is their run's, and a new one is named after the head's environment. Else as mf_rundir_open and
 * mf_rundir_learn. */
int mf_workdir_open(struct mf_workdir *w, const struct mf_frame *head, const struct mf_rundir_opts *o, bool saved,
                    bool serves, struct mf_err *err);
void mf_workdir_close(struct mf_workdir *w);

struct mf_start {
    const char *from; /* a checkpoint's file; NULL: a fresh policy */
    bool resumes;     /* it is the folder's newest one, and all goes on */
    int64_t due;      /* the iteration that the collector begins with */
    char path[MF_PATH_MAX];
};

/* The run of this folder goes on, where the learner is told so (resume) or the collector does. Else the start is
 * `checkpoint`, else the collector's, each a file or a run (mf_runs_checkpoint); NULL: none was named. */
int mf_workdir_start(const struct mf_workdir *w, const struct mf_frame *head, bool resume, const char *checkpoint,
                     struct mf_start *s, struct mf_err *err);

#endif
