/* head.h - what the head of a stream may say. Whoever reads a stream checks its heads by this, once, so that sizes and
 * counters can be multiplied later without a second look. */
#ifndef MF_STREAM_HEAD_H
#define MF_STREAM_HEAD_H

#include "stream/frame.h"

enum {
    MF_LAG_MAX = 1,             /* versions that a policy may be behind: `max_lag` */
    MF_ROUND_DIM_MAX = 1 << 20, /* environments of a source, `num_envs`, and decisions of each in a round, `steps` */
};

/* MF_EFORMAT, with the field and its value: the stream is of another format, or a number is none that a run can have.
 */
int mf_head_check(const struct mf_frame *head, struct mf_err *err);

#endif
