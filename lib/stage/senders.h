/* senders.h - the sources of a stream, each from its head to its end. Inside lib/stage only.
 *
 * A stream may interleave several sources with different names (`src`) and equal specs. Each begins with its own head
 * and ends with its own `end`. A lost or stopped source may return with a head. A head with `again` comes from a source
 * that starts over before its end; its counts restart.
 */
#ifndef MF_STAGE_SENDERS_H
#define MF_STAGE_SENDERS_H

#include "base/err.h"
#include "stream/frame.h"
#include "wire/port.h"

enum {
    MF_SENDERS_MAX = 65536, /* names, against a peer that invents them */
    MF_SRC_MAX = 64,
    MF_WHY_MAX = 256
};

struct mf_count {
    int64_t frames, samples;
};

struct mf_sender {
    char src[MF_SRC_MAX];
    int from;                   /* number of its writer on a socket; -1: disconnected */
    bool active, stopped, lost; /* between head and end; how it ended */
    char why[MF_WHY_MAX];       /* reason of its rejection, after which its frames are dropped; "": not rejected */
    int64_t next;               /* the round after its last complete one; 0: none */
    double moved;               /* arrival of that round, or of its head: see awaits.c */
    bool named;                 /* logged as the one that others wait for */
    bool end_due;               /* a filter has not yet forwarded its end */
    struct mf_count got, sent;
};

struct mf_senders {
    int n, room;
    struct mf_sender **s;   /* (n) */
    struct mf_sender *at;   /* source of the current frame */
    struct mf_frame *first; /* the first head, with which all others agree */
};

/* Finds the source of this frame and sets q->at. 1: it was rejected. A head opens or reopens a source under an unused
 * name; `again` is set if a source of that name starts over. MF_EFORMAT: a frame out of order, or heads that do not
 * agree. */
int mf_senders_take(struct mf_senders *q, struct mf_port *in, struct mf_frame *f, struct mf_err *err);
struct mf_sender *mf_senders_named(struct mf_senders *q, const char *src); /* NULL: none of that name */
/* Number of sources of this writer of a socket, which may forward several; *one is one of them. */
int mf_senders_from(struct mf_senders *q, int from, struct mf_sender **one);
void mf_sender_refuse(struct mf_sender *s, const char *why);
/* Rejects the first head, of *s: its further frames are dropped, and the next head becomes the first. */
void mf_senders_withdraw(struct mf_senders *q, struct mf_sender *s, const char *why);
int mf_senders_active(const struct mf_senders *q);
void mf_senders_release(struct mf_senders *q);

#endif
