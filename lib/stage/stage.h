/* stage.h - the frame that every program hangs in.
 *
 * A stage file defines one `struct mf_stage` and a one-line main. The frame
 * makes --help, --version, --cfg, --config, --in, --out, configuration,
 * signals, provenance, the end frame, exit codes and log lines from it, the
 * same in every program.
 *
 * INT: a source ends its step, writes `end` with stopped: true; stages with an
 * upstream drain to it; all then die by the signal. TERM: close and save now,
 * no `end`. A reader that is gone: close cleanly, then die by SIGPIPE, so that
 * a death runs upstream to the collectors; but programs whose frames are metrics
 * warn once and go on, since nobody's work depends on who watches it. A
 * source whose work() returns MF_STOPPED after INT has ended its step too.
 *
 * A stream is read whole: it begins with a head, its end frame counts frames
 * and samples, nothing follows. All else is MF_EFORMAT. Several sources may
 * share a stream (collectors that write to one socket): each has its head and
 * its end, heads agree in their spec, and the stream ends with its last source.
 * On a socket a writer that breaks these rules is refused, with the reason, and the
 * others go on; a source that is gone without an end gets one that says `lost`.
 * So does one of several whose frame() failed with MF_EFORMAT, where what goes
 * out are frames: its end says `why` too, and what still comes of it is dropped.
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
    MF_FILTER, /* a stream in, the same stream out, more in it */
    MF_SOURCE, /* no stream in */
    MF_SINK,   /* a stream in, none of its frames out: it emits what it makes (metrics, results) */
    MF_TOOL,   /* neither: words and text (mf-ckpt) */
};

struct mf_run; /* the frame's own: ports, counts, configuration */

struct mf_stage {
    const char *name;     /* "gae": the program mf-gae */
    const char *summary;  /* what it does, below --help's usage: a line, or a line and a list of commands */
    const char *operands; /* "FILE", for usage; NULL: words that are not key=value are refused */
    const char *examples; /* shown at the end of --help */
    enum mf_role role;
    bool text_out; /* stdout carries text, not frames (mf-view, mf-ckpt); flushed after every frame */
    bool watched;  /* does its work without a reader too: on a terminal it is silent there instead of being refused */
    bool metrics;  /* its frames are metrics: without a reader it goes on, and neither emits nor fails */
    bool replays;  /* emits the frames of another stream: no link is added, and an `end` that it emits is the end */
    bool composes; /* mf-conf: --doc and -m are its business */
    const struct mf_bind *binds;
    const struct mf_bind_table *tables; /* more rows, by those who know their keys; NULL: none */
    size_t size;                        /* bytes of the stage's struct; it arrives zeroed, keys bound */

    /* Any may be NULL. Each returns 0, or negative with *err set. */
    int (*open)(struct mf_run *run, void *self, struct mf_err *err);
    /* Where collect.sources are several, asked of the first head before frame() sees it: one that fails is turned away,
     * and the next one is the first. */
    int (*fits)(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err);
    /* Each frame of the input but `end`. A filter passes on what it does not take: mf_emit. NULL passes on. */
    int (*frame)(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err);
    int (*work)(struct mf_run *run, void *self, struct mf_err *err); /* a source or tool: 1 more, 0 done */
    int (*ended)(struct mf_run *run, void *self, const struct mf_frame *end,
                 struct mf_err *err); /* of one source: it was read whole, or is lost */
    /* Always once open was called, also after an error: rc is it and *err its sentence. Then `end` is sent
     * (unless rc or this failed) and the ports close. */
    int (*close)(struct mf_run *run, void *self, int rc, struct mf_err *err);
};

int mf_stage_main(const struct mf_stage *stage, int argc, char **argv);

/* Send one frame downstream; counted for the end frame (samples of a rollout = T*N). A
 * head gets this stage's link in its chain. Nothing is written where stdout is a terminal. */
int mf_emit(struct mf_run *run, struct mf_frame *f, struct mf_err *err);
/* Give a head that is kept before it is sent, or never sent, that link; mf_emit adds no second one. */
void mf_run_sign(struct mf_run *run, struct mf_frame *head);
int mf_flush_text(struct mf_err *err); /* of stdout: MF_CLOSED where nobody reads it */

/* The MF_EFORMAT that frame() or ended() is about to return is that source's, not the one's whose frame is at hand. */
void mf_run_blame(struct mf_run *run, const char *src);

/* The folder of the run that this program makes or learns in; a filter joins the one that its stream comes from by
 * itself. goes_on: with the configuration that it began with, or MF_EUSAGE (run.force asks for none of this). Nothing
 * is written there before mf_run_accepted: another program may refuse the run still. */
int mf_run_join(struct mf_run *run, const char *folder, bool goes_on, struct mf_err *err);
/* The run begins: from now on the folder has this program's log and configuration. Again is fine; a filter is accepted
 * with the first frame behind the head. */
void mf_run_accepted(struct mf_run *run);
const char *mf_run_folder(const struct mf_run *run); /* that it has joined; "": none */
bool mf_run_is_saved(const struct mf_run *run);      /* the input is a file: its run is not in progress */

const struct mf_conf *mf_run_conf(const struct mf_run *run);
/* What follows for a key that nobody set, and the run's folder is to tell: mf_conf_assume. */
const char *mf_run_assume(struct mf_run *run, const char *key, const char *text);
struct mf_conf *mf_run_record(struct mf_run *run); /* what the folder is to tell, for mf_conf_assume_names and _omit */
const char *const *mf_run_operands(const struct mf_run *run, int *n); /* words that are not key=value */
const char *const *mf_run_said(const struct mf_run *run, int *n); /* argv[1..] without --in and --out, for a helper */
struct mf_port *mf_run_out(struct mf_run *run);                   /* to watch it while waiting elsewhere */
const struct mf_wire_opts *mf_run_wire(const struct mf_run *run); /* wire.*: for other sockets */
void mf_run_waited(struct mf_run *run, double seconds);           /* for input that did not come by its port */
bool mf_run_on_terminal(const struct mf_run *run);                /* stdout is one: show progress there */

#endif
