/* out.c - the output of a stage: frames, due ends, text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/stage_priv.h"

/* Of whichever array every rollout has. */
int64_t mf_samples_of(const struct mf_frame *f)
{
    static const char *const names[] = {"rewards", "terminated", "actions"};
    for (int i = 0; mf_frame_kind(f) == MF_ROLLOUT && i < 3; i++) {
        const struct mf_array *a = mf_frame_find(f, names[i]);
        if (a && a->rank >= 2)
            return (int64_t)(a->dim[0] * a->dim[1]);
    }
    return 0;
}

static int emit_head(struct mf_run *run, struct mf_frame *f, struct mf_err *err)
{
    if (run->stage->role != MF_FILTER) {
        const char *src = "";
        if (mf_frame_has(f, "src") && mf_frame_get_str(f, "src", &src, err))
            return err->code;
        run->own.sent = (struct mf_count){.frames = 0};
        snprintf(run->own.src, sizeof run->own.src, "%s", src);
    }
    if (!run->stage->replays)
        mf_run_sign(run, f);
    return 0;
}

void mf_run_sign(struct mf_run *run, struct mf_frame *head)
{
    if (run->signed_by_us != head)
        mf_frame_add_chain(head, run->opt.program, MF_VERSION, run->opt.n_said, run->opt.said);
    run->signed_by_us = head;
}

int mf_unread(struct mf_run *run, int rc, const struct mf_err *err)
{
    if (rc != MF_CLOSED || !run->stage->metrics)
        return rc;
    mf_log(MF_LOG_WARN, "%s; the run continues", err->text);
    mf_port_drop(run->out);
    run->out = NULL;
    return 0;
}

int mf_emit(struct mf_run *run, struct mf_frame *f, struct mf_err *err)
{
    if (!run->out || run->silent || run->stage->text_out)
        return 0;
    int rc = mf_frame_kind(f) == MF_HEAD ? emit_head(run, f, err) : 0;
    if (mf_frame_kind(f) == MF_ROUND)
        mf_waits_round(&run->waits, mf_run_waited_in(run), mf_port_waited(run->out));
    if (rc || (rc = mf_frame_send(run->out, f, err)))
        return mf_unread(run, rc, err);
    struct mf_sender *s = run->stage->role == MF_FILTER ? run->sources.at : &run->own;
    run->began = true;
    run->ended |= mf_frame_kind(f) == MF_END;
    s->sent.frames++;
    s->sent.samples += mf_samples_of(f);
    return 0;
}

struct mf_frame *mf_make_end(const struct mf_sender *s, const struct mf_count *count)
{
    struct mf_frame *end = mf_frame_new(MF_END);
    mf_frame_set_str(end, "src", s->src);
    mf_frame_set_int(end, "frames", count->frames);
    mf_frame_set_int(end, "samples", count->samples);
    mf_frame_set_bool(end, "stopped", s->stopped);
    if (s->lost)
        mf_frame_set_bool(end, "lost", true);
    if (*s->why)
        mf_frame_set_str(end, "why", s->why);
    return end;
}

int mf_send_end(struct mf_run *run, struct mf_sender *s, struct mf_err *err)
{
    struct mf_frame *end = mf_make_end(s, &s->sent);
    int rc = s->sent.frames && run->out ? mf_frame_send(run->out, end, err) : 0;
    mf_frame_free(end);
    s->end_due = false;
    return mf_unread(run, rc, err);
}

void mf_send_failed(struct mf_run *run)
{
    struct mf_err ignored;
    if (!run->out || run->silent || run->stage->text_out || !(run->began || *run->failed) || mf_stop_signal() ||
        !mf_port_has_room(run->out))
        return;
    struct mf_frame *f = mf_frame_new(MF_FAILED);
    mf_frame_set_str(f, "who", *run->failed ? run->failed : run->opt.program);
    (void)mf_frame_send(run->out, f, &ignored);
    mf_frame_free(f);
}

int mf_send_ends(struct mf_run *run, struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; i < run->sources.n && rc == 0; i++)
        if (run->sources.s[i]->end_due)
            rc = mf_send_end(run, run->sources.s[i], err);
    if (rc || run->ended || run->stage->role == MF_FILTER)
        return rc;
    run->own.stopped = run->stopped || run->stage->replays;
    return mf_send_end(run, &run->own, err);
}

/* Text that cannot be written is an error, or the end, at once. */
int mf_flush_text(struct mf_err *err)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) /* ferror: an earlier write failed, errno is still its */
        return 0;
    return errno == EPIPE ? mf_err_set(err, MF_CLOSED, "stdout has no reader any more")
                          : mf_err_errno(err, "write <stdout>");
}

int mf_close_text(struct mf_err *err)
{
    int rc = mf_flush_text(err);
    /* EBADF: mf-env, which used it for its protocol, has closed it. */
    return rc || close(STDOUT_FILENO) == 0 || errno == EBADF ? rc : mf_err_errno(err, "close <stdout>");
}
