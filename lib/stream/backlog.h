/* backlog.h - frames that were sent and that a new reader may ask for again. */
#ifndef MF_STREAM_BACKLOG_H
#define MF_STREAM_BACKLOG_H

#include "stream/frame.h"

struct mf_backlog { /* zeroed: empty */
    int n;
    struct mf_frame **frame; /* (n) oldest first, one owner of each */
};

void mf_backlog_keep(struct mf_backlog *b, struct mf_frame *f);
/* The frames of iterations before this one, the oldest, are not asked for any more. */
void mf_backlog_done(struct mf_backlog *b, int64_t iter);
/* The *n frames of an iteration; NULL: none. */
struct mf_frame *const *mf_backlog_find(const struct mf_backlog *b, int64_t iter, int *n);
void mf_backlog_release(struct mf_backlog *b);

#endif
