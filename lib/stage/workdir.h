/* workdir.h - the folder that a learner writes (that of its stream's run if it is in progress, or its own), and the
 * checkpoint that training starts from.
 */
#ifndef MF_STAGE_WORKDIR_H
#define MF_STAGE_WORKDIR_H

#include <stdint.h>

#include "stage/rundir.h"

struct mf_workdir { /* zeroed: none */
    char path[MF_PATH_MAX];
    bool live; /* the stream's run is in progress, and this process is its only learner */
    bool own;  /* path is the learner's own folder */
    struct mf_rundir stream, mine;
};

/* o->dir NULL: the stream's run, or a new folder below outputs/offline. saved: the stream is read from a file, so its
 * run is not used even if it is in progress. serves: the collectors have no folder and connect to an address, so this
 * folder is the run's, and a new one is named after the head's environment. Errors as mf_rundir_open and
 * mf_rundir_learn. */
int mf_workdir_open(struct mf_workdir *w, const struct mf_frame *head, const struct mf_rundir_opts *o, bool saved,
                    bool serves, struct mf_err *err);
void mf_workdir_close(struct mf_workdir *w);

struct mf_start {
    const char *from; /* a checkpoint's file; NULL: a fresh policy */
    bool resumes;     /* it is the folder's newest checkpoint, and training resumes */
    int64_t due;      /* first iteration whose round the collector can send */
    char path[MF_PATH_MAX];
};

/* The run of this folder goes on, where the learner is told so (resume) or the collector does. Else the start is
 * `checkpoint`, else the collector's, each a file or a run (mf_runs_checkpoint); NULL: none was named. */
int mf_workdir_start(const struct mf_workdir *w, const struct mf_frame *head, bool resume, const char *checkpoint,
                     struct mf_start *s, struct mf_err *err);

#endif
