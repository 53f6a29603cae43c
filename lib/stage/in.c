/* in.c - the input of a stage: frames of one or many sources, and their ends, regular or lost. */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "stage/stage_priv.h"

static const double say_after = 10; /* s without a stream */

bool mf_stage_reads(const struct mf_stage *s)
{
    return s->role == MF_FILTER || s->role == MF_SINK;
}

/* One source has ended, regularly or lost. */
static int take_end(struct mf_run *run, void *self, struct mf_sender *s, struct mf_frame *end, struct mf_err *err)
{
    s->active = false;
    mf_awaits_moved(run);
    run->stopped |= s->stopped;
    int rc = mf_lead(run, self, end, err);
    s->end_due = run->stage->role == MF_FILTER && !run->silent && !run->stage->text_out;
    const bool last = !mf_senders_active(&run->sources) && !mf_awaits_more(run);
    return rc || !s->end_due || last ? rc : mf_send_end(run, s, err);
}

static int take_why(struct mf_sender *s, const struct mf_frame *end, struct mf_err *err)
{
    const char *why;
    int rc = mf_frame_get_str(end, "why", &why, err);
    if (rc == 0)
        mf_sender_refuse(s, why);
    return rc;
}

static int check_end(struct mf_sender *s, const struct mf_frame *end, struct mf_err *err)
{
    struct mf_count said;
    int rc;
    if ((rc = mf_frame_get_int(end, "frames", &said.frames, err)) ||
        (rc = mf_frame_get_int(end, "samples", &said.samples, err)))
        return rc;
    if (said.frames != s->got.frames || said.samples != s->got.samples)
        return mf_err_set(
            err, MF_EFORMAT, "the end frame counts %lld frames and %lld samples, but %lld and %lld arrived",
            (long long)said.frames, (long long)said.samples, (long long)s->got.frames, (long long)s->got.samples);
    if (mf_frame_has(end, "stopped") && (rc = mf_frame_get_bool(end, "stopped", &s->stopped, err)))
        return rc;
    if (mf_frame_has(end, "lost") && (rc = mf_frame_get_bool(end, "lost", &s->lost, err)))
        return rc;
    return mf_frame_has(end, "why") ? take_why(s, end, err) : 0;
}

static void log_turned_away(struct mf_run *run, const struct mf_sender *s)
{
    mf_log_rarely(&run->refusals, MF_LOG_WARN, "%s: source '%s' is rejected, the others continue: %s",
                  mf_port_name(run->in), s->src, s->why);
    mf_awaits_moved(run);
    mf_awaits_say(run);
}

/* A source without a name cannot be given a policy. */
static int check_name(const struct mf_run *run, const struct mf_sender *s, struct mf_err *err)
{
    return *s->src || mf_awaits_due(run) < 2
               ? 0
               : mf_err_set(err, MF_EFORMAT,
                            "its head has no src, but collect.sources=%d: give each collector its own collect.src",
                            mf_awaits_due(run));
}

/* The stream begins with this head, unless it is one of several and incompatible with the stage: then its source is
 * rejected, and the next head begins the stream. 1: rejected. */
static int take_first(struct mf_run *run, void *self, struct mf_sender *s, const struct mf_frame *head,
                      struct mf_err *err)
{
    const bool several = mf_awaits_due(run) > 1;
    int rc = check_name(run, s, err);
    rc = rc ? rc : mf_run_follow(run, self, head, err);
    if (rc == 0 && several && run->stage->fits)
        rc = run->stage->fits(head, run->opt.conf, err);
    if (rc == 0)
        return mf_run_join_head(run, head, err);
    if (!several || (rc != MF_EFORMAT && rc != MF_EUSAGE))
        return rc;
    mf_senders_withdraw(&run->sources, s, err->text);
    log_turned_away(run, s);
    if (mf_port_is_socket(run->in))
        mf_port_refuse(run->in, mf_port_from(run->in), s->why);
    return 1;
}

static int take(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct mf_sender *s = run->sources.at;
    if (mf_frame_kind(f) == MF_END)
        return take_end(run, self, s, f, err);
    const bool head = mf_frame_kind(f) == MF_HEAD;
    int rc = f == run->sources.first ? take_first(run, self, s, f, err) : head ? check_name(run, s, err) : 0;
    if (rc)
        return rc < 0 ? rc : 0;
    if (!head && run->stage->role == MF_FILTER) /* frames after the head are sent only once the learner has replied */
        mf_run_accepted(run);
    mf_awaits_begun(run, s, f);
    const int64_t samples = mf_samples_of(f);
    rc = mf_lead(run, self, f, err);
    s->got.frames++;
    s->got.samples += samples;
    if (rc == 0)
        mf_awaits_taken(run);
    return rc;
}

static long long frames_so_far(const struct mf_run *run)
{
    long long n = 0;
    for (int i = 0; i < run->sources.n; i++)
        n += run->sources.s[i]->got.frames + !run->sources.s[i]->active;
    return n;
}

static const char UNNAMED[] = "an earlier program"; /* that has failed before it began a stream */

/* One cause is one line: after a program that has logged its failure, the later stages of a pipe stay silent. */
static int truncated(struct mf_run *run, struct mf_err *err)
{
    const char *name = mf_port_name(run->in);
    const long long n = frames_so_far(run);
    const bool quiet = mf_port_is_pipe(run->in) && !run->stage->text_out;
    if (mf_stop_signal() == SIGINT)
        return mf_err_set(err, MF_STOPPED, "stopped by SIGINT");
    if (quiet && (*run->failed || n == 0)) {
        if (!*run->failed)
            mf_log(MF_LOG_INFO, "%s ended before a stream began: see the message of the program before this one", name);
        snprintf(run->failed, sizeof run->failed, "%s", *run->failed ? run->failed : UNNAMED);
        return mf_err_set(err, MF_EFORMAT, "%s", "");
    }
    if (*run->failed)
        return mf_err_set(err, MF_EFORMAT, "%s is truncated: %s failed after %lld frames", name, run->failed, n);
    return mf_err_set(err, MF_EFORMAT, "%s is truncated: it ends after %lld frames without an end frame", name, n);
}

static void take_failed(struct mf_run *run, const struct mf_frame *f)
{
    const char *who = UNNAMED;
    struct mf_err ignored;
    (void)mf_frame_get_str(f, "who", &who, &ignored);
    snprintf(run->failed, sizeof run->failed, "%s", *who ? who : UNNAMED);
}

/* Is there another source, or is one awaited? Then the stream continues without this one. */
static bool others(const struct mf_run *run, const struct mf_sender *s)
{
    for (int i = 0; i < run->sources.n; i++) {
        const struct mf_sender *other = run->sources.s[i];
        if (other != s && (other->active || !other->lost))
            return true;
    }
    return false;
}

static int turn_away(struct mf_run *run, void *self, bool head, struct mf_err *err);

/* Ends a source that sent no end, and reports it downstream. Without it a round may become complete, which may reveal
 * an error of another source. */
static int lose(struct mf_run *run, void *self, struct mf_sender *s, struct mf_err *err)
{
    s->lost = true;
    run->sources.at = s;
    struct mf_frame *end = mf_make_end(s, &s->got);
    int rc = take_end(run, self, s, end, err);
    mf_frame_free(end);
    return rc == MF_EFORMAT && run->blamed ? turn_away(run, self, false, err) : rc;
}

/* A writer of a socket has disconnected. Its unfinished sources are lost; losing the last one ends the stream. */
static int left(struct mf_run *run, void *self, struct mf_err *err)
{
    const int from = mf_port_from(run->in);
    int rc = 0;
    for (int i = 0; rc == 0 && i < run->sources.n; i++) {
        struct mf_sender *s = run->sources.s[i];
        if (s->from != from)
            continue;
        s->from = -1;
        if (!s->active)
            continue;
        if (!others(run, s) && !mf_awaits_more(run))
            return truncated(run, err);
        if (!*s->why)
            mf_log(MF_LOG_WARN, "%s: source '%s' disconnected without an end frame, after %lld frames",
                   mf_port_name(run->in), s->src, (long long)s->got.frames);
        rc = lose(run, self, s, err);
    }
    return rc;
}

/* A writer of a socket broke the protocol: it is refused, the others continue. */
static int refuse_writer(struct mf_run *run, void *self, struct mf_err *err)
{
    const int from = mf_port_from(run->in);
    mf_port_refuse(run->in, from, err->text);
    mf_log_rarely(&run->refusals, MF_LOG_WARN, "%s: refused a writer: %s", mf_port_name(run->in), err->text);
    for (int i = 0; i < run->sources.n; i++)
        if (run->sources.s[i]->active && run->sources.s[i]->from == from)
            mf_sender_refuse(run->sources.s[i], err->text);
    return left(run, self, err);
}

void mf_run_blame(struct mf_run *run, const char *src)
{
    run->blamed = mf_senders_named(&run->sources, src);
}

/* An error that a stage found in a frame or a round is attributed to one source, which is rejected if there are others.
 * Otherwise, and for a head, which a stage may have processed in part, it is an error of the stream. */
static int turn_away(struct mf_run *run, void *self, bool head, struct mf_err *err)
{
    struct mf_sender *s = run->blamed ? run->blamed : run->sources.at, *one;
    run->blamed = NULL;
    mf_sender_refuse(s, err->text);
    if (run->stage->text_out || !(others(run, s) || (mf_awaits_more(run) && !head)))
        return err->code;
    log_turned_away(run, s);
    if (mf_port_is_socket(run->in) && s->from >= 0 && mf_senders_from(&run->sources, s->from, &one) == 1)
        mf_port_refuse(run->in, s->from, s->why), s->from = -1; /* its number may be reused */
    return lose(run, self, s, err);
}

/* Handles a complete frame. *misplaced: its writer broke the rules of a stream. */
static int take_frame(struct mf_run *run, void *self, struct mf_frame *f, bool *misplaced, struct mf_err *err)
{
    int rc = mf_senders_take(&run->sources, run->in, f, err);
    if (rc == 0 && mf_frame_kind(f) == MF_END)
        rc = check_end(run->sources.at, f, err);
    *misplaced = rc == MF_EFORMAT && mf_port_is_socket(run->in);
    if (rc == 1)
        return 0; /* from a rejected source */
    if (rc || (rc = take(run, self, f, err)) != MF_EFORMAT)
        return rc;
    return turn_away(run, self, mf_frame_kind(f) == MF_HEAD, err);
}

static bool awaits_several(const struct mf_run *run)
{
    return mf_awaits_due(run) > 1 && !run->stage->text_out;
}

static void set_alarm(struct mf_run *run)
{
    mf_port_alarm(run->in, awaits_several(run) || !run->heard ? mf_now() + 1 : 0);
}

/* A stream is to come over a socket, from programs that may not be running. */
static void expect(struct mf_run *run)
{
    run->heard = !mf_port_is_socket(run->in);
    run->expected = mf_now();
    set_alarm(run);
}

static void say_awaited(struct mf_run *run)
{
    if (run->heard || mf_now() - run->expected < say_after)
        return;
    run->heard = true;
    const int n = mf_port_writers(run->in);
    if (n == 0)
        mf_log(MF_LOG_WARN,
               "waiting for a stream at %s: no program has connected for %g s; is a collector or a filter running with "
               "--out at this address?",
               mf_port_name(run->in), say_after);
    else
        mf_log(MF_LOG_WARN,
               "waiting for a stream at %s: no frame came for %g s from the connected programs (%d); a filter sends "
               "nothing before its collectors do",
               mf_port_name(run->in), say_after, n);
}

/* Nothing arrived for a while. */
static int look_at_waits(struct mf_run *run, void *self, struct mf_err *err)
{
    say_awaited(run);
    set_alarm(run);
    const int rc = awaits_several(run) ? mf_awaits_check(run, err) : 0;
    return rc == MF_EFORMAT ? turn_away(run, self, false, err) : rc;
}

/* The new reader has seen nothing of the stream: sources that can send it again do so. No end goes to it before a
 * head. */
static int begin_again(struct mf_run *run)
{
    mf_log(MF_LOG_INFO, "%s: a new reader connected; the programs at %s (%d) are asked to send again",
           mf_port_name(run->out), mf_port_name(run->in), mf_port_writers(run->in));
    for (int i = 0; i < run->sources.n; i++)
        run->sources.s[i]->sent = (struct mf_count){.frames = 0};
    mf_port_again(run->in);
    expect(run);
    return 0;
}

/* 1: more may come, 0: the stream is complete. */
static int pump_frame(struct mf_run *run, void *self, struct mf_err *err)
{
    const bool socket = mf_port_is_socket(run->in);
    struct mf_frame *f = NULL;
    int rc = mf_frame_recv(run->in, run->stage->metrics ? NULL : run->out, &f, err);
    if (rc == 0)
        return run->sources.n && !mf_senders_active(&run->sources) ? 0 : truncated(run, err);
    const long long nth = frames_so_far(run) + 1;
    run->heard |= rc == 1;
    bool misplaced = rc == MF_EFORMAT && socket;
    if (rc == 1 && mf_frame_kind(f) == MF_FAILED && !socket) {
        take_failed(run, f);
        mf_frame_free(f);
        return 1;
    }
    if (rc == MF_PORT_LATE)
        rc = look_at_waits(run, self, err);
    else if (rc == MF_PORT_RENEWED)
        rc = begin_again(run);
    else if (rc == MF_PORT_LEFT)
        rc = left(run, self, err);
    else if (rc == 1 && (rc = take_frame(run, self, f, &misplaced, err)) == MF_EFORMAT && !misplaced)
        mf_err_at(err, "%s, frame %lld", mf_port_name(run->in), nth);
    mf_frame_free(f);
    if (misplaced)
        rc = refuse_writer(run, self, err);
    if (rc == 0 && run->stage->text_out)
        rc = mf_flush_text(err);
    if (rc)
        return rc;
    return !socket || !run->sources.n || mf_senders_active(&run->sources) || mf_awaits_more(run);
}

int mf_pump(struct mf_run *run, void *self, struct mf_err *err)
{
    int rc = 1;
    expect(run);
    while (rc == 1)
        rc = pump_frame(run, self, err);
    return rc;
}
