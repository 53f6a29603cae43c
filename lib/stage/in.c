/* in.c - what a stage takes: frames of one or many sources, their ends, and those that go without one. */
#include <signal.h>

#include "base/log.h"
#include "stage/stage_priv.h"

bool mf_stage_reads(const struct mf_stage *s)
{
    return s->role == MF_FILTER || s->role == MF_SINK;
}

/* One source is over, by its own word or as it was lost. */
static int take_end(struct mf_run *run, void *self, struct mf_sender *s, const struct mf_frame *end, struct mf_err *err)
{
    s->active = false;
    run->stopped |= s->stopped;
    int rc = run->stage->ended ? run->stage->ended(run, self, end, err) : 0;
    s->end_due = run->stage->role == MF_FILTER && !run->silent && !run->stage->text_out;
    return rc || !s->end_due || !mf_senders_active(&run->sources) ? rc : mf_send_end(run, s, err);
}

static int check_end(struct mf_sender *s, const struct mf_frame *end, struct mf_err *err)
{
    struct mf_count said;
    int rc;
    if ((rc = mf_frame_get_int(end, "frames", &said.frames, err)) ||
        (rc = mf_frame_get_int(end, "samples", &said.samples, err)))
        return rc;
    if (said.frames != s->got.frames || said.samples != s->got.samples)
        return mf_err_set(err, MF_EFORMAT, "the end counts %lld frames and %lld samples, but %lld and %lld came",
                          (long long)said.frames, (long long)said.samples, (long long)s->got.frames,
                          (long long)s->got.samples);
    if (mf_frame_has(end, "stopped") && (rc = mf_frame_get_bool(end, "stopped", &s->stopped, err)))
        return rc;
    return mf_frame_has(end, "lost") ? mf_frame_get_bool(end, "lost", &s->lost, err) : 0;
}

static int take(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct mf_sender *s = run->sources.at;
    if (mf_frame_kind(f) == MF_END)
        return take_end(run, self, s, f, err);
    if (mf_frame_kind(f) == MF_HEAD && s->got.frames == 0 && run->sources.n == 1 && mf_run_join(run, f, err))
        return err->code;
    const int64_t samples = mf_samples_of(f);
    int rc = run->stage->frame ? run->stage->frame(run, self, f, err) : mf_emit(run, f, err);
    s->got.frames++;
    s->got.samples += samples;
    return rc;
}

static long long frames_so_far(const struct mf_run *run)
{
    long long n = 0;
    for (int i = 0; i < run->sources.n; i++)
        n += run->sources.s[i].got.frames + !run->sources.s[i].active;
    return n;
}

static int truncated(const struct mf_run *run, struct mf_err *err)
{
    return mf_stop_signal() == SIGINT
               ? mf_err_set(err, MF_STOPPED, "asked to end by SIGINT")
               : mf_err_set(err, MF_EFORMAT, "%s is truncated: it ends after %lld frames without an end frame",
                            mf_port_name(run->in), frames_so_far(run));
}

/* A writer of a socket is gone. Its source, if it had not ended, is lost, and those who read behind us hear it; the
 * last one is the stream's own loss. */
static int left(struct mf_run *run, void *self, struct mf_err *err)
{
    struct mf_sender *s = mf_senders_from(&run->sources, mf_port_from(run->in));
    bool others = false;
    if (!s)
        return 0;
    s->from = -1;
    if (!s->active)
        return 0;
    for (int i = 0; i < run->sources.n; i++) {
        const struct mf_sender *other = &run->sources.s[i];
        others |= other != s && (other->active || !other->lost);
    }
    if (!others)
        return truncated(run, err);
    mf_log(MF_LOG_WARN, "%s: source '%s' is gone without an end, after %lld frames", mf_port_name(run->in), s->src,
           (long long)s->got.frames);
    s->lost = true;
    run->sources.at = s;
    struct mf_frame *end = mf_make_end(s, &s->got);
    int rc = take_end(run, self, s, end, err);
    mf_frame_free(end);
    return rc;
}

/* One writer of a socket sent what cannot be: it is told and sent away, and the others go on. */
static int turn_away(struct mf_run *run, void *self, struct mf_err *err)
{
    int from = mf_port_from(run->in);
    mf_port_refuse(run->in, from, err->text);
    mf_log(MF_LOG_WARN, "%s: refused a writer: %s", mf_port_name(run->in), err->text);
    return left(run, self, err);
}

/* 1: more may come, 0: the stream is whole. */
static int pump_frame(struct mf_run *run, void *self, struct mf_err *err)
{
    const bool socket = mf_port_is_socket(run->in);
    struct mf_frame *f = NULL;
    int rc = mf_frame_recv(run->in, run->out, &f, err);
    if (rc == 0)
        return run->sources.n && !mf_senders_active(&run->sources) ? 0 : truncated(run, err);
    const long long nth = frames_so_far(run) + 1;
    bool misplaced = rc == MF_EFORMAT && socket;
    if (rc == MF_PORT_LEFT) {
        rc = left(run, self, err);
    } else if (rc == 1) {
        rc = mf_senders_take(&run->sources, run->in, f, err);
        if (rc == 0 && mf_frame_kind(f) == MF_END)
            rc = check_end(run->sources.at, f, err);
        misplaced = rc == MF_EFORMAT && socket;
        if (rc == 0)
            rc = take(run, self, f, err);
        if (rc == MF_EFORMAT && !misplaced)
            mf_err_at(err, "%s, frame %lld", mf_port_name(run->in), nth);
    }
    mf_frame_free(f);
    if (misplaced)
        rc = turn_away(run, self, err);
    if (rc == 0 && run->stage->text_out)
        rc = mf_flush_text(err);
    if (rc)
        return rc;
    return !socket || !run->sources.n || mf_senders_active(&run->sources);
}

int mf_pump(struct mf_run *run, void *self, struct mf_err *err)
{
    int rc = 1;
    while (rc == 1)
        rc = pump_frame(run, self, err);
    return rc;
}
