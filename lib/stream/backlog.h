/* backlog.h - frames that were sent and not yet consumed, to be sent again to a new reader. */
#ifndef MF_STREAM_BACKLOG_H
#define MF_STREAM_BACKLOG_H

#include "stream/frame.h"

struct mf_backlog { /* zeroed: empty */
    int n;
    struct mf_frame **frame; /* (n) oldest first, one owner of each */
};

void mf_backlog_keep(struct mf_backlog *b, struct mf_frame *f);
/* The frames of iterations before this one are consumed; they are the oldest. */
void mf_backlog_consumed(struct mf_backlog *b, int64_t iter);
void mf_backlog_release(struct mf_backlog *b);

#endif
