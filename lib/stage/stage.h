/* stage.h - the frame of every program.
 *
 * A stage file defines one `struct mf_stage` and a one-line main. From it follow --help, --version, --cfg, --config,
 * --in, --out, configuration, signals, provenance, the end frame, exit codes and log lines, the same in every program.
 *
 * SIGINT: a source completes its step and writes `end` with stopped: true; stages with an upstream drain to it; then
 * all die by the signal. SIGTERM: close and save now, without `end`. If the reader is gone, a program closes cleanly
 * and dies by SIGPIPE, so that a death propagates upstream to the collectors. Programs whose frames are metrics warn
 * once and continue instead, since training must not depend on its monitors. A source whose work() returns MF_STOPPED
 * after SIGINT has completed its step, too.
 *
 * A filter from a socket to a socket waits for another reader, up to collect.policy_timeout or wire.patience, and then
 * asks its writers to send again from the head on, as collectors can. frame() gets only what they send from then on.
 *
 * A stream must be complete: it begins with a head, its end frame counts frames and samples, and nothing follows.
 * Anything else is MF_EFORMAT. Several sources may share a stream (collectors that write to one socket): each has its
 * head and its end, the heads agree in their spec, and the stream ends with its last source. On a socket a writer that
 * breaks these rules is rejected with the reason, and the others continue. A source that disconnects without an end
 * gets one with `lost`. So does one of several sources whose frame() failed with MF_EFORMAT, in a program that forwards
 * frames: its end also has `why`, and its further frames are dropped.
 */
#ifndef MF_STAGE_STAGE_H
#define MF_STAGE_STAGE_H

#include "base/err.h"
#include "base/log.h"
#include "base/stop.h"
#include "conf/conf.h"
#include "stream/frame.h"
#include "wire/port.h"

enum mf_role {
    MF_FILTER, /* a stream in, the same stream out with additions */
    MF_SOURCE, /* no stream in */
    MF_SINK,   /* a stream in; emits its own frames (metrics, results) */
    MF_TOOL,   /* neither: words and text (mf-ckpt) */
};

struct mf_run;   /* private to the frame: ports, counts, configuration */
struct mf_ranks; /* ranks/ranks.h */

struct mf_stage {
    const char *name;     /* "gae": the program mf-gae */
    const char *summary;  /* its job, printed below the usage of --help: a line, or a line and a list of commands */
    const char *operands; /* "FILE", for usage; NULL: words that are not key=value are refused */
    const char *examples; /* shown at the end of --help */
    enum mf_role role;
    bool text_out; /* stdout carries text, not frames (mf-view, mf-ckpt); flushed after every frame */
    bool watched;  /* works without a reader, too: with stdout on a terminal it writes no frames instead of failing */
    bool metrics;  /* its frames are metrics: if the reader is gone it continues and emits nothing */
    bool replays;  /* emits the frames of another stream: adds no link to the chain, and forwards that stream's `end` */
    bool ranks;    /* several processes that mpirun or srun starts are one: see below */
    bool composes; /* mf-conf: handles --doc and -m */
    const struct mf_bind *binds;
    const struct mf_bind_table *tables; /* further rows, from the modules that own the keys; NULL: none */
    size_t size;                        /* bytes of the stage's struct; it arrives zeroed, keys bound */

    /* Any may be NULL. Each returns 0, or negative with *err set. */
    int (*open)(struct mf_run *run, void *self, struct mf_err *err);
    /* With several collect.sources, checks the first head before frame(): if it fails, its source is rejected, and the
     * next head becomes the first. */
    int (*fits)(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err);
    /* Called for each input frame except `end`. A filter forwards frames with mf_emit; NULL forwards all. */
    int (*frame)(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err);
    int (*work)(struct mf_run *run, void *self, struct mf_err *err); /* a source or a tool: 1: call again, 0: done */
    int (*ended)(struct mf_run *run, void *self, const struct mf_frame *end,
                 struct mf_err *err); /* end of one source, complete or lost */
    /* Always called after open, also after an error (rc, *err). Then `end` is sent (unless rc or close failed) and the
     * ports are closed. */
    int (*close)(struct mf_run *run, void *self, int rc, struct mf_err *err);
};

int mf_stage_main(const struct mf_stage *stage, int argc, char **argv);

/* Sends one frame downstream and counts it for the end frame (samples of a rollout = T*N). A head gets this stage's
 * link in its chain. Nothing is written if stdout is a terminal. */
int mf_emit(struct mf_run *run, struct mf_frame *f, struct mf_err *err);
/* Adds that link to a head that is stored before it is sent, or never sent; mf_emit adds no second one. */
void mf_run_sign(struct mf_run *run, struct mf_frame *head);
int mf_flush_text(struct mf_err *err); /* of stdout: MF_CLOSED if the reader is gone */

/* Attributes the MF_EFORMAT that frame() or ended() is about to return to that source, not to the source of the current
 * frame. */
void mf_run_blame(struct mf_run *run, const char *src);

/* Joins the folder of the run that this program makes or trains; a filter joins the folder of its stream's run
 * automatically. goes_on: the configuration must be the one that the run was started with, else MF_EUSAGE (not with
 * run.force). Nothing is written there before mf_run_accepted: another program may still reject the run. */
int mf_run_join(struct mf_run *run, const char *folder, bool goes_on, struct mf_err *err);
/* The run begins: writes this program's log and configuration to the folder. May be called again; a filter is accepted
 * with the first frame after the head. */
void mf_run_accepted(struct mf_run *run);
const char *mf_run_folder(const struct mf_run *run); /* the joined folder; "": none */
bool mf_run_is_saved(const struct mf_run *run);      /* the input is a file: its run is not in progress */

const struct mf_conf *mf_run_conf(const struct mf_run *run);
/* Records in the run's folder the value derived for an unset key: mf_conf_assume. */
const char *mf_run_assume(struct mf_run *run, const char *key, const char *text);
struct mf_conf *
mf_run_record(struct mf_run *run); /* the configuration recorded in the folder, for mf_conf_assume_names and _omit */
const char *const *mf_run_operands(const struct mf_run *run, int *n); /* words that are not key=value */
const char *const *mf_run_said(const struct mf_run *run,
                               int *n);         /* argv[1..] without --in and --out, for a helper process */
struct mf_port *mf_run_out(struct mf_run *run); /* to watch it while waiting elsewhere */
const struct mf_wire_opts *mf_run_wire(const struct mf_run *run); /* wire.*: for other sockets */
void mf_run_waited(struct mf_run *run, double seconds); /* adds time spent waiting for input other than the port's */
bool mf_run_on_terminal(const struct mf_run *run);      /* stdout is one: show progress there */

/* ---- several ranks (ranks/ranks.h) ----
 *
 * Rank 0 takes the stream in, and the stages of all ranks get the same frames and ends in the same order. A stage
 * computes alike in all, and reads and writes nothing but input files where it does not lead. */

struct mf_ranks *mf_run_ranks(const struct mf_run *run); /* NULL: this process is alone */
bool mf_run_leads(const struct mf_run *run);             /* it is rank 0, or alone: the one that writes */
int mf_run_share(const struct mf_run *run, void *bytes, size_t n, struct mf_err *err); /* rank 0's, to all */

#endif
