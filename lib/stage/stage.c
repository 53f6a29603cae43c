#include "stage/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "stage/options.h"
#include "stage/rundir.h"
#include "stage/senders.h"
#include "stage/waits.h"

struct mf_run {
    const struct mf_stage *stage;
    struct mf_options opt;
    struct mf_wire_opts wire;
    struct mf_port *in, *out;
    bool silent;               /* stdout is a terminal: no frames go there */
    bool ended;                /* an end was emitted: a replayed one */
    bool stopped;              /* INT ended a source of this stream before its time */
    struct mf_senders sources; /* of what comes in */
    struct mf_sender own;      /* what goes out of a source or a sink */
    struct mf_waits waits;
    double waited_elsewhere; /* s, for input that comes by no port */
};

const struct mf_conf *mf_run_conf(const struct mf_run *run)
{
    return run->opt.conf;
}

const char *mf_run_assume(struct mf_run *run, const char *key, const char *text)
{
    return mf_conf_assume(run->opt.conf, key, text);
}

const char *const *mf_run_operands(const struct mf_run *run, int *n)
{
    *n = run->opt.n_operands;
    return run->opt.operands;
}

const char *const *mf_run_said(const struct mf_run *run, int *n)
{
    *n = run->opt.n_said - 1;
    return (const char *const *)run->opt.said + 1;
}

struct mf_port *mf_run_out(struct mf_run *run)
{
    return run->out;
}

const struct mf_wire_opts *mf_run_wire(const struct mf_run *run)
{
    return &run->wire;
}

void mf_run_waited(struct mf_run *run, double seconds)
{
    run->waited_elsewhere += seconds;
}

bool mf_run_on_terminal(const struct mf_run *run)
{
    return run->silent;
}

static double waited_in(const struct mf_run *run)
{
    return run->waited_elsewhere + (run->in ? mf_port_waited(run->in) : 0);
}

static bool reads(const struct mf_stage *s)
{
    return s->role == MF_FILTER || s->role == MF_SINK;
}

/* T*N, of whichever array every rollout has. */
static int64_t samples_of(const struct mf_frame *f)
{
    static const char *const names[] = {"rewards", "terminated", "actions"};
    for (int i = 0; mf_frame_kind(f) == MF_ROLLOUT && i < 3; i++) {
        const struct mf_array *a = mf_frame_find(f, names[i]);
        if (a && a->rank >= 2)
            return (int64_t)(a->dim[0] * a->dim[1]);
    }
    return 0;
}

/* A run goes on with the configuration that it began with. */
static int hold_to_begin(const struct mf_run *run, const char *dir, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    struct mf_conf *was = mf_conf_new();
    struct mf_err why;
    snprintf(path, sizeof path, "%.900s/configs/%s.yaml", dir, run->opt.program);
    int rc = mf_conf_file(was, path, &why) ? 0 : mf_conf_agrees(run->opt.conf, was, run->stage->binds, &why);
    if (rc)
        mf_err_set(err, rc, "%.100s goes on as it began, but here is %.300s; give what it was, or run.force=true", dir,
                   why.text);
    mf_conf_free(was);
    return rc;
}

/* Leave a log and the configuration in the folder of a run that is going on. */
static int join_run(struct mf_run *run, const struct mf_frame *head, struct mf_err *err)
{
    const char *dir;
    struct mf_err ignored;
    if (run->stage->text_out || mf_frame_get_str(head, "run", &dir, &ignored) || !*dir || !mf_rundir_is_live(dir))
        return 0;
    const bool goes_on = mf_frame_has(head, "iter"), forced = !strcmp(mf_conf_text(run->opt.conf, "run.force"), "true");
    int rc = goes_on && !forced ? hold_to_begin(run, dir, err) : 0;
    if (rc)
        return rc;
    mf_rundir_join(dir, run->opt.program, run->opt.conf);
    if (run->stage->role == MF_FILTER || run->stage->role == MF_SOURCE)
        mf_waits_open(&run->waits, dir, run->opt.program, waited_in(run), mf_port_waited(run->out));
    return 0;
}

static int emit_head(struct mf_run *run, struct mf_frame *f, struct mf_err *err)
{
    const bool first = run->own.sent.frames == 0;
    if (run->stage->role != MF_FILTER) {
        const char *src = "";
        if (mf_frame_has(f, "src") && mf_frame_get_str(f, "src", &src, err))
            return err->code;
        run->own.sent = (struct mf_count){.frames = 0};
        snprintf(run->own.src, sizeof run->own.src, "%s", src);
    }
    if (first && !reads(run->stage) && join_run(run, f, err))
        return err->code;
    if (!run->stage->replays)
        mf_frame_add_chain(f, run->opt.program, MF_VERSION, run->opt.n_said, run->opt.said);
    return 0;
}

int mf_emit(struct mf_run *run, struct mf_frame *f, struct mf_err *err)
{
    if (!run->out || run->silent || run->stage->text_out)
        return 0;
    int rc = mf_frame_kind(f) == MF_HEAD ? emit_head(run, f, err) : 0;
    if (mf_frame_kind(f) == MF_ROUND)
        mf_waits_round(&run->waits, waited_in(run), mf_port_waited(run->out));
    if (rc || (rc = mf_frame_send(run->out, f, err)))
        return rc;
    struct mf_sender *s = run->stage->role == MF_FILTER ? run->sources.at : &run->own;
    run->ended |= mf_frame_kind(f) == MF_END;
    s->sent.frames++;
    s->sent.samples += samples_of(f);
    return 0;
}

static struct mf_frame *make_end(const struct mf_sender *s, const struct mf_count *count)
{
    struct mf_frame *end = mf_frame_new(MF_END);
    mf_frame_set_str(end, "src", s->src);
    mf_frame_set_int(end, "frames", count->frames);
    mf_frame_set_int(end, "samples", count->samples);
    mf_frame_set_bool(end, "stopped", s->stopped);
    if (s->lost)
        mf_frame_set_bool(end, "lost", true);
    return end;
}

static int send_end(struct mf_run *run, struct mf_sender *s, struct mf_err *err)
{
    struct mf_frame *end = make_end(s, &s->sent);
    int rc = s->sent.frames ? mf_frame_send(run->out, end, err) : 0;
    mf_frame_free(end);
    s->end_due = false;
    return rc;
}

/* The ends that are still due: a filter's for its sources, anyone else's for what it made. */
static int send_ends(struct mf_run *run, struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; i < run->sources.n && rc == 0; i++)
        if (run->sources.s[i].end_due)
            rc = send_end(run, &run->sources.s[i], err);
    if (rc || run->ended || run->stage->role == MF_FILTER)
        return rc;
    run->own.stopped = run->stopped || run->stage->replays;
    return send_end(run, &run->own, err);
}

/* Text that nobody takes is an error, or the end, as soon as it is written. */
static int flush_text(struct mf_err *err)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) /* what failed before is told now: errno is still its */
        return 0;
    return errno == EPIPE ? mf_err_set(err, MF_CLOSED, "nobody reads stdout any more")
                          : mf_err_errno(err, "write <stdout>");
}

/* One source is over, by its own word or as it was lost. */
static int take_end(struct mf_run *run, void *self, struct mf_sender *s, const struct mf_frame *end, struct mf_err *err)
{
    s->active = false;
    run->stopped |= s->stopped;
    int rc = run->stage->ended ? run->stage->ended(run, self, end, err) : 0;
    s->end_due = run->stage->role == MF_FILTER && !run->silent && !run->stage->text_out;
    return rc || !s->end_due || !mf_senders_active(&run->sources) ? rc : send_end(run, s, err);
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
    if (mf_frame_kind(f) == MF_HEAD && s->got.frames == 0 && run->sources.n == 1 && join_run(run, f, err))
        return err->code;
    const int64_t samples = samples_of(f);
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
    struct mf_frame *end = make_end(s, &s->got);
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
        rc = flush_text(err);
    if (rc)
        return rc;
    return !socket || !run->sources.n || mf_senders_active(&run->sources);
}

static int pump_stream(struct mf_run *run, void *self, struct mf_err *err)
{
    int rc = 1;
    while (rc == 1)
        rc = pump_frame(run, self, err);
    return rc;
}

static int pump_work(struct mf_run *run, void *self, struct mf_err *err)
{
    int rc = 1;
    while (run->stage->work && rc == 1 && !mf_stop_signal())
        rc = run->stage->work(run, self, err);
    if (mf_stop_signal() == SIGINT && (rc >= 0 || rc == MF_STOPPED)) {
        run->stopped = true;
        return 0;
    }
    return rc < 0 ? rc : mf_stop_check(err);
}

/* A run's folder stands for its metrics. */
static int open_in(struct mf_run *run, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    struct stat st;
    if (stat(run->opt.in, &st) < 0 || !S_ISDIR(st.st_mode))
        return mf_port_open(&run->in, run->opt.in, MF_IN, &run->wire, err);
    snprintf(path, sizeof path, "%.1000s/logs/metrics.mf", run->opt.in);
    if (access(path, F_OK))
        return mf_err_set(err, MF_EIO, "%s has no metrics: no %s", run->opt.in, path);
    return mf_port_open(&run->in, path, MF_IN, &run->wire, err);
}

static int open_ports(struct mf_run *run, struct mf_err *err)
{
    const struct mf_stage *s = run->stage;
    int rc;
    if (reads(s) && (rc = open_in(run, err)))
        return rc;
    if (run->in && mf_port_is_terminal(run->in))
        return mf_err_set(err, MF_EUSAGE, "a stream comes through a pipe or --in, not from a terminal");
    if (s->role == MF_TOOL)
        return 0;
    if ((rc = mf_port_open(&run->out, run->opt.out, MF_OUT, &run->wire, err)))
        return rc;
    run->silent = !s->text_out && mf_port_is_terminal(run->out);
    if (run->silent && s->role != MF_SINK && !s->watched)
        return mf_err_set(err, MF_EUSAGE, "a stream is not for a terminal: pipe it into another program, or mf-view");
    return 0;
}

/* The first real error is the one to tell; that a reader left or a signal came is none. */
static bool is_error(int rc)
{
    return rc < 0 && rc != MF_CLOSED && rc != MF_STOPPED;
}

static int run_all(struct mf_run *run, void *self, struct mf_err *err)
{
    const struct mf_stage *s = run->stage;
    int rc = open_ports(run, err);
    if (rc == 0) {
        rc = s->open ? s->open(run, self, err) : 0;
        if (rc == 0)
            rc = reads(s) ? pump_stream(run, self, err) : pump_work(run, self, err);
        struct mf_err late = *err;
        int late_rc = s->close ? s->close(run, self, rc, &late) : 0;
        if (late_rc < 0 && !is_error(rc))
            *err = late, rc = late_rc;
    }
    if (rc == 0 && run->out && !run->silent && !s->text_out)
        rc = send_ends(run, err);
    if (rc == MF_CLOSED && run->out && mf_port_is_socket(run->out)) /* of a pipe the shell tells */
        mf_log(MF_LOG_WARN, "%s", err->text);
    if (rc == 0 && (s->text_out || s->role == MF_TOOL))
        rc = flush_text(err);
    if (rc == 0 && run->out) {
        rc = mf_port_close(run->out, err);
        run->out = NULL;
    }
    if (rc == 0 && run->in) {
        rc = mf_port_close(run->in, err);
        run->in = NULL;
    }
    mf_port_drop(run->out);
    mf_port_drop(run->in);
    mf_senders_release(&run->sources);
    mf_waits_close(&run->waits);
    return rc;
}

/* The exit status, or death by the signal that a shell should see. */
static int finish(const struct mf_options *o, int rc, const struct mf_err *err)
{
    int sig = mf_stop_signal();
    if (rc == MF_STOPPED || (sig && !is_error(rc)))
        return mf_stop_die(sig ? sig : SIGTERM);
    if (rc == MF_CLOSED)
        return mf_stop_die(SIGPIPE);
    if (rc == MF_EUSAGE)
        mf_log(MF_LOG_ERROR, "%s (see %s --help)", err->text, o->program);
    else if (rc < 0)
        mf_log(MF_LOG_ERROR, "%s", err->text);
    return rc == 0 ? 0 : rc == MF_EUSAGE ? 2 : rc == MF_EFORMAT ? 3 : 1;
}

/* A descriptor 0..2 that came closed would go to the next file that is opened, and log lines into it. What takes its
 * place fails to be read, or written: the opposite was asked for. stderr alone may be lost. */
static void fill_standard(void)
{
    static const int mode[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", mode[fd]);
}

int mf_stage_main(const struct mf_stage *stage, int argc, char **argv)
{
    struct mf_err err = {0};
    struct mf_run run = {.stage = stage};
    static const struct mf_bind log_level[] = {{"log.level", 0}, {0}};
    static const struct mf_bind wire[] = {{"wire.secret", offsetof(struct mf_wire_opts, secret)},
                                          {"wire.server", offsetof(struct mf_wire_opts, server)},
                                          {"wire.allowed", offsetof(struct mf_wire_opts, allowed)},
                                          {"wire.patience", offsetof(struct mf_wire_opts, patience)},
                                          {0}};
    int level = MF_LOG_INFO;
    char prog[64];

    fill_standard();
    snprintf(prog, sizeof prog, "mf-%s", stage->name);
    mf_log_open(prog, MF_LOG_INFO);
    setenv("OMP_NUM_THREADS", "1", 1); /* threads are ours alone */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    int rc = mf_options_read(&run.opt, stage, argc, argv, &err);
    if (rc == 1) {
        rc = flush_text(&err);
    } else if (rc == 0) {
        void *self = mf_xcalloc(1, stage->size);
        if ((rc = mf_conf_bind(run.opt.conf, log_level, &level, &err)) == 0 &&
            (rc = mf_conf_bind(run.opt.conf, wire, &run.wire, &err)) == 0 &&
            (rc = mf_conf_bind(run.opt.conf, stage->binds, self, &err)) == 0) {
            mf_log_open(prog, (enum mf_level)level);
            mf_stop_catch();
            rc = run_all(&run, self, &err);
        }
        free(self);
    }
    mf_options_release(&run.opt);
    return finish(&run.opt, rc, &err);
}
