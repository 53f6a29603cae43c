/* senders.h - whose frames a stream carries: each source from its head to its end. Inside lib/stage only.
 *
 * A stream may interleave several sources, which differ in their names (`src`) and agree in what they make. Each begins
 * with a head and ends with an `end` of its own. One that was lost or stopped may come back with a head; a head with
 * `again` comes from one that starts over before its end, and its counts begin anew.
 */
#ifndef MF_STAGE_SENDERS_H
#define MF_STAGE_SENDERS_H

#include "base/err.h"
#include "stream/frame.h"
#include "wire/port.h"

enum { MF_SENDERS_MAX = 256, MF_SRC_MAX = 64, MF_WHY_MAX = 256 };

struct mf_count {
    int64_t frames, samples;
};

struct mf_sender {
    char src[MF_SRC_MAX];
    int from;                   /* which writer of a socket; -1: it is gone */
    bool active, stopped, lost; /* between head and end; how it ended */
    char why[MF_WHY_MAX];       /* it was turned away: what still comes of it is dropped. "": it was not */
    int64_t next;               /* the round behind the last one that came of it whole; 0: none came */
    double moved;               /* when that one came, or its head: see awaits.c */
    bool named;                 /* as the one that others wait for */
    bool end_due;               /* a filter has its end still to pass on */
    struct mf_count got, sent;
};

struct mf_senders {
    int n;
    struct mf_sender s[MF_SENDERS_MAX];
    struct mf_sender *at;   /* whose frame is at hand */
    struct mf_frame *first; /* head: the one that all agree with */
};

/* Whose this frame is; *at of it. 1: of one that was turned away. A head opens or reopens its source, of another name
 * than those that are here, and has `again` set where one of that name starts over. MF_EFORMAT: it is out of place, or
 * the heads do not agree. */
int mf_senders_take(struct mf_senders *q, struct mf_port *in, struct mf_frame *f, struct mf_err *err);
struct mf_sender *mf_senders_named(struct mf_senders *q, const char *src); /* NULL: none of that name */
/* How many came by this writer of a socket, which may pass on several; *one of them. */
int mf_senders_from(struct mf_senders *q, int from, struct mf_sender **one);
void mf_sender_refuse(struct mf_sender *s, const char *why);
/* The first head, of *s, is refused: what still comes of it is dropped, and the next head is the first. */
void mf_senders_withdraw(struct mf_senders *q, struct mf_sender *s, const char *why);
int mf_senders_active(const struct mf_senders *q);
void mf_senders_release(struct mf_senders *q);

#endif
