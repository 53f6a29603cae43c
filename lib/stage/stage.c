#include "stage/stage_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "ranks/ranks.h"
#include "stage/rundir.h"

const struct mf_conf *mf_run_conf(const struct mf_run *run)
{
    return run->opt.conf;
}

const char *mf_run_assume(struct mf_run *run, const char *key, const char *text)
{
    return mf_conf_assume(run->opt.conf, key, text);
}

struct mf_conf *mf_run_record(struct mf_run *run)
{
    return run->opt.conf;
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

double mf_run_waited_in(const struct mf_run *run)
{
    return run->waited_elsewhere + (run->in ? mf_port_waited(run->in) : 0);
}

const char *mf_run_folder(const struct mf_run *run)
{
    return run->folder;
}

bool mf_run_is_saved(const struct mf_run *run)
{
    return run->in && mf_port_is_file(run->in);
}

/* A run resumes only with the configuration recorded in its folder. */
static int hold_to_begin(const struct mf_run *run, const char *dir, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    struct mf_err why;
    snprintf(path, sizeof path, "%.900s/configs/%s.yaml", dir, run->opt.program);
    if (access(path, F_OK) < 0)
        return 0;
    struct mf_conf *was = mf_conf_new();
    int rc = 0;
    if (mf_conf_recorded(was, dir, run->opt.program, &why))
        mf_log(MF_LOG_WARN, "cannot read the configuration of the run in %.100s: %.300s", dir, why.text);
    else if (mf_conf_agrees(run->opt.conf, was, run->opt.binds, &why))
        rc = mf_err_set(
            err, MF_EUSAGE,
            "%.100s was started with another configuration: now %.300s; give the old values, or run.force=true", dir,
            why.text);
    mf_conf_free(was);
    return rc;
}

int mf_run_join(struct mf_run *run, const char *folder, bool goes_on, struct mf_err *err)
{
    const bool forced = !strcmp(mf_conf_text(run->opt.conf, "run.force"), "true");
    if (!mf_run_leads(run))
        return 0;
    int rc = *folder && goes_on && !forced ? hold_to_begin(run, folder, err) : 0;
    if (rc || !*folder)
        return rc;
    snprintf(run->folder, sizeof run->folder, "%s", folder);
    if (run->stage->role == MF_FILTER || run->stage->role == MF_SOURCE) /* its file comes with the first round */
        mf_waits_open(&run->waits, folder, run->opt.program, mf_run_waited_in(run),
                      run->out ? mf_port_waited(run->out) : 0);
    return 0;
}

int mf_run_join_head(struct mf_run *run, const struct mf_frame *head, struct mf_err *err)
{
    const char *dir;
    struct mf_err ignored;
    if (run->stage->role != MF_FILTER || mf_run_is_saved(run) || mf_frame_get_str(head, "run", &dir, &ignored) ||
        !*dir || !mf_rundir_is_live(dir))
        return 0;
    return mf_run_join(run, dir, mf_frame_has(head, "iter"), err);
}

void mf_run_accepted(struct mf_run *run)
{
    if (!*run->folder || run->joined)
        return;
    run->joined = true;
    if (mf_rundir_join(run->folder, run->opt.program, run->opt.conf))
        return;
    *run->folder = '\0';
    run->waits = (struct mf_waits){0};
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
    struct mf_at at;
    struct mf_err ignored;
    if (mf_runs_at(&at, run->opt.in, &ignored) || at.kind == MF_AT_FILE) /* or an address */
        return mf_port_open(&run->in, run->opt.in, MF_IN, &run->wire, err);
    if (at.kind == MF_AT_FOLDER)
        return mf_runs_not_one(at.path, err);
    mf_runs_metrics(at.path, path);
    if (access(path, F_OK))
        return mf_err_set(err, MF_EIO, "%s has no metrics: no %s", at.path, path);
    const int journal = mf_file_open(path, err); /* a pipe in its place would block */
    if (journal < 0)
        return err->code;
    close(journal);
    return mf_port_open(&run->in, path, MF_IN, &run->wire, err);
}

static int open_ports(struct mf_run *run, struct mf_err *err)
{
    const struct mf_stage *s = run->stage;
    int rc;
    if (!mf_run_leads(run))
        return 0;
    if (mf_stage_reads(s) && (rc = open_in(run, err)))
        return rc;
    if (run->in && mf_port_is_terminal(run->in))
        return mf_err_set(err, MF_EUSAGE, "the input is a stream: give a pipe or --in, not a terminal");
    if (s->role == MF_TOOL)
        return 0;
    if (mf_stage_reads(s) &&
        (rc = mf_file_apart(strcmp(run->opt.in, "-") != 0 ? run->opt.in : "/dev/stdin", run->opt.out, err)))
        return rc;
    if ((rc = mf_port_open(&run->out, run->opt.out, MF_OUT, &run->wire, err)))
        return rc;
    if (s->role == MF_FILTER && !s->metrics && mf_port_is_socket(run->in)) /* whose writers can send again */
        mf_port_resends(run->out, run->wire.meeting);
    if (s->text_out && mf_port_is_pipe(run->out)) /* to stdio a full pipe would be an error */
        fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) & ~O_NONBLOCK);
    run->silent = !s->text_out && mf_port_is_terminal(run->out) && !mf_ranks_relayed();
    if (run->silent && s->role != MF_SINK && !s->watched)
        return mf_err_set(
            err, MF_EUSAGE,
            "the output is a binary stream, not for a terminal: pipe it into another program, or into mf-view");
    return 0;
}

/* The first real error is reported; a lost reader or a signal is not one. */
static bool is_error(int rc)
{
    return rc < 0 && rc != MF_CLOSED && rc != MF_STOPPED;
}

/* So that all ranks close together: also behind a stream that breaks off, where the others wait for the next frame. */
static int leave_stream(struct mf_run *run, int rc, struct mf_err *err)
{
    struct mf_err late;
    if (rc == MF_EFORMAT)
        (void)mf_lead_over(run, &late);
    else if (!is_error(rc) && mf_lead_over(run, err) < 0)
        return err->code;
    return rc;
}

static int run_all(struct mf_run *run, void *self, struct mf_err *err)
{
    const struct mf_stage *s = run->stage;
    int rc = open_ports(run, err);
    if (rc == 0) {
        rc = s->open ? s->open(run, self, err) : 0;
        if (rc == 0)
            rc = !mf_stage_reads(s)  ? pump_work(run, self, err)
                 : mf_run_leads(run) ? mf_pump(run, self, err)
                                     : mf_follow_lead(run, self, err);
        rc = leave_stream(run, rc, err);
        struct mf_err late = *err;
        int late_rc = s->close ? s->close(run, self, rc, &late) : 0;
        if (late_rc < 0 && !is_error(rc))
            *err = late, rc = late_rc;
    }
    if (rc == 0 && run->out && !run->silent && !s->text_out)
        rc = mf_send_ends(run, err);
    if (rc == MF_CLOSED && run->out && mf_port_is_socket(run->out)) /* on a pipe the shell reports it */
        mf_log(MF_LOG_WARN, "%s", err->text);
    if (rc == 0 && s->role == MF_TOOL)
        rc = mf_close_text(err);
    else if (rc == 0 && s->text_out) /* and its port closes */
        rc = mf_flush_text(err);
    if (rc == 0 && run->out) {
        struct mf_port *out = run->out;
        run->out = NULL;
        rc = mf_unread(run, mf_port_close(out, err), err);
    }
    if (rc == 0 && run->in) {
        rc = mf_port_close(run->in, err);
        run->in = NULL;
    }
    if (is_error(rc))
        mf_send_failed(run);
    else if (mf_lead_over(run, err) < 0)
        rc = err->code;
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
    if (rc == MF_EUSAGE && *err->text)
        mf_log(MF_LOG_ERROR, "%s (see %s --help)", err->text, o->program);
    else if (rc < 0 && *err->text) /* "": an earlier program, or another rank, has logged it */
        mf_log(MF_LOG_ERROR, "%s", err->text);
    return rc == 0 ? 0 : rc == MF_EUSAGE ? 2 : rc == MF_EFORMAT ? 3 : 1;
}

/* A closed descriptor 0..2 would be reused for the next opened file, which would then receive log lines. Its
 * placeholder is opened for the opposite direction, so that reading or writing it fails. Only stderr may be lost. */
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
                                          {"wire.threads", offsetof(struct mf_wire_opts, threads)},
                                          {"collect.policy_timeout", offsetof(struct mf_wire_opts, meeting)},
                                          {0}};
    int level = MF_LOG_INFO;
    char prog[64];

    fill_standard();
    snprintf(prog, sizeof prog, "mf-%s", stage->name);
    mf_log_open(prog, MF_LOG_INFO);
    setenv("OMP_NUM_THREADS", "1", 1); /* the only threads are those of workers.h */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    int rc = mf_options_read(&run.opt, stage, argc, argv, &err);
    if (rc == 1) {
        rc = mf_close_text(&err);
    } else if (rc == 0) {
        void *self = mf_xcalloc(1, stage->size);
        if ((rc = mf_conf_bind(run.opt.conf, log_level, &level, &err)) == 0 &&
            (rc = mf_conf_bind(run.opt.conf, wire, &run.wire, &err)) == 0 &&
            (rc = mf_conf_bind(run.opt.conf, run.opt.binds, self, &err)) == 0) {
            mf_log_open(prog, (enum mf_level)level);
            mf_stop_catch();
            if ((rc = mf_lead_open(&run, &err)) == 0)
                rc = run_all(&run, self, &err);
        }
        free(self);
    }
    if (is_error(rc))
        mf_give_precedence(&run, &err);
    else
        mf_lead_close(&run, 0);
    mf_options_release(&run.opt);
    const int status = finish(&run.opt, rc, &err);
    mf_lead_close(&run, status);
    return status;
}
