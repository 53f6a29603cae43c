/* stage_priv.h - what a run is made of. Inside lib/stage only: out.c sends, in.c takes, stage.c lives. */
#ifndef MF_STAGE_PRIV_H
#define MF_STAGE_PRIV_H

#include "stage/options.h"
#include "stage/rundir.h"
#include "stage/senders.h"
#include "stage/stage.h"
#include "stage/waits.h"

struct mf_run {
    const struct mf_stage *stage;
    struct mf_options opt;
    struct mf_wire_opts wire;
    struct mf_port *in, *out;
    bool silent;                         /* stdout is a terminal: no frames go there */
    bool ended;                          /* an end was emitted: a replayed one */
    bool stopped;                        /* INT ended a source of this stream before its time */
    bool began;                          /* a frame was emitted */
    const struct mf_frame *signed_by_us; /* the head that has our link */
    char failed[64];                     /* the program that failed, as a `failed` frame says; "": none came */
    struct mf_senders sources;           /* of what comes in */
    struct mf_sender *blamed;  /* whose the error is that a stage is about to return; NULL: whose frame is at hand */
    struct mf_rarely refusals; /* of writers and sources */
    struct mf_rarely waits_named;
    bool heard;               /* a frame came since `expected`, or it was logged that none did */
    double expected;          /* mf_now when a socket opened, or its writers were asked to begin again */
    bool complete;            /* all collect.sources have sent a round: who goes from now on is awaited no more */
    double moved, longest;    /* s of waiting: when a source last came, sent a round or went; the longest round */
    struct mf_sender own;     /* what goes out of a source or a sink */
    char folder[MF_PATH_MAX]; /* of the run that it belongs to; "": none */
    bool joined;              /* which has accepted it: its log and configuration are there */
    struct mf_waits waits;
    double waited_elsewhere; /* s, for input that comes by no port */
    struct mf_ranks *ranks;  /* NULL: alone */
    bool together;           /* all ranks have left the stream */
    bool dealt;              /* a rollout's observations were shared out */
};

/* ---- stage.c ---- */

/* A filter joins the run of the first head, if that is in progress. As mf_run_join. */
int mf_run_join_head(struct mf_run *run, const struct mf_frame *head, struct mf_err *err);
double mf_run_waited_in(const struct mf_run *run); /* s, for input so far */

/* ---- follow.c ---- */

/* The defaults that a head brings (env.h: likes), for keys of the policy and its training that nobody set. Not where a
 * policy.checkpoint was given, which they are not for. */
int mf_run_follow(struct mf_run *run, void *self, const struct mf_frame *head, struct mf_err *err);

/* ---- out.c ---- */

/* What sending to a reader that is gone comes to: of metrics a warning, and there is no out port any more. */
int mf_unread(struct mf_run *run, int rc, const struct mf_err *err);
int64_t mf_samples_of(const struct mf_frame *f); /* T*N of a rollout, else 0 */
struct mf_frame *mf_make_end(const struct mf_sender *s, const struct mf_count *count);
int mf_send_end(struct mf_run *run, struct mf_sender *s, struct mf_err *err);
/* To those behind a pipe, after an error that was said: it is not theirs. */
void mf_send_failed(struct mf_run *run);
/* The ends that are still due: a filter's for its sources, anyone else's for what it made. */
int mf_send_ends(struct mf_run *run, struct mf_err *err);
/* The last of it: some file systems report a full disk only when the file is closed. As mf_flush_text. */
int mf_close_text(struct mf_err *err);

/* ---- awaits.c ---- */

int mf_awaits_due(const struct mf_run *run); /* collect.sources */
/* Some were turned away before all had sent a round, and without them there are fewer than collect.sources. */
bool mf_awaits_more(const struct mf_run *run);
void mf_awaits_begun(struct mf_run *run, struct mf_sender *s, const struct mf_frame *f); /* before a stage takes it */
void mf_awaits_taken(struct mf_run *run);                                                /* and after it has */
void mf_awaits_moved(struct mf_run *run); /* a source is gone: the others' round is measured from here */
void mf_awaits_say(const struct mf_run *run);
/* When nothing came for a while: says for which source all wait. MF_EFORMAT, and run->blamed is it: longer than
 * collect.policy_timeout, and ten times a round. MF_EIO: as long, for others in the place of those turned away. */
int mf_awaits_check(struct mf_run *run, struct mf_err *err);

/* ---- lead.c ---- */

int mf_lead_open(struct mf_run *run, struct mf_err *err);
void mf_lead_close(struct mf_run *run, int status); /* other than 0: ends all ranks */
/* Gives a frame, or the end of a source, to the stage: of all ranks. */
int mf_lead(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err);
int mf_lead_over(struct mf_run *run, struct mf_err *err); /* rank 0 is done */
/* Of another rank, in the place of mf_pump: what rank 0 gives, until it is done. */
int mf_follow_lead(struct mf_run *run, void *self, struct mf_err *err);
/* Before a rank other than 0 reports an error: rank 0, if it has the same, reports it and ends all. */
void mf_give_precedence(const struct mf_run *run, struct mf_err *err);

/* ---- deal.c ---- */

/* Of rank 0: takes a rollout's observations out of f, where ranks share them out; *all, which the caller frees, has
 * them as long as f lives. NULL: they stay in f. */
int mf_deal_take(struct mf_run *run, struct mf_frame *f, struct mf_array **all, struct mf_err *err);
/* Of each rank, whose frame lacks them: puts its share in. all: rank 0's. */
int mf_deal(const struct mf_run *run, struct mf_frame *f, const struct mf_array *all, struct mf_err *err);

/* ---- in.c ---- */

bool mf_stage_reads(const struct mf_stage *s);
int mf_pump(struct mf_run *run, void *self, struct mf_err *err); /* all that comes; 0: the stream is whole */

#endif
