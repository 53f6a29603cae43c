#include "stage/workdir.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "stream/frame.h"

static int join_stream(struct mf_workdir *w, const struct mf_frame *head, const char *run, double wait,
                       struct mf_err *err)
{
    const bool goes_on = mf_frame_has(head, "iter");
    if (!*run || !mf_rundir_is_live(run))
        return 0;
    int rc = mf_rundir_learn(&w->stream, run, goes_on ? wait : 0, err);
    w->live = rc == 0;
    return rc;
}

static int open_own(struct mf_workdir *w, const struct mf_frame *head, const struct mf_rundir_opts *given, bool serves,
                    struct mf_err *err)
{
    struct mf_rundir_opts o = *given;
    o.task = "offline";
    if (serves && mf_frame_has(head, "spec.env") && mf_frame_get_str(head, "spec.env", &o.task, err))
        return err->code;
    int rc = mf_rundir_open(&w->mine, &o, err);
    w->own = rc == 0;
    snprintf(w->path, sizeof w->path, "%s", w->mine.path);
    return rc;
}

int mf_workdir_open(struct mf_workdir *w, const struct mf_frame *head, const struct mf_rundir_opts *o, bool saved,
                    bool serves, struct mf_err *err)
{
    const char *run = "";
    struct mf_err ignored;
    *w = (struct mf_workdir){0};
    if (!saved)
        (void)mf_frame_get_str(head, "run", &run, &ignored);
    int rc = join_stream(w, head, run, o->wait, err);
    if (rc)
        return rc;
    if (!w->live || (o->dir && !mf_file_same(o->dir, run)))
        rc = open_own(w, head, o, serves, err);
    else
        snprintf(w->path, sizeof w->path, "%s", run);
    if (rc == 0)
        mf_rundir_sweep(w->path);
    return rc;
}

void mf_workdir_close(struct mf_workdir *w)
{
    if (w->own)
        mf_rundir_close(&w->mine);
    if (w->live)
        mf_rundir_close(&w->stream);
    *w = (struct mf_workdir){0};
}

int mf_workdir_start(const struct mf_workdir *w, const struct mf_frame *head, bool resume, const char *checkpoint,
                     struct mf_start *s, struct mf_err *err)
{
    struct mf_err ignored;
    *s = (struct mf_start){.from = checkpoint};
    (void)mf_frame_get_int(head, "iter", &s->due, &ignored);
    s->resumes = (resume || s->due > 0) && mf_runs_newest(w->path, s->path);
    (void)mf_frame_get_int(head, "kept", &s->due, &ignored);
    if (s->resumes)
        s->from = s->path;
    else if (resume)
        mf_rundir_say_anew(w->path);
    int rc = s->from || !mf_frame_has(head, "checkpoint") ? 0 : mf_frame_get_str(head, "checkpoint", &s->from, err);
    if (rc || s->resumes || !s->from || (rc = mf_runs_checkpoint(s->from, s->path, err)))
        return rc;
    s->from = s->path;
    return 0;
}
