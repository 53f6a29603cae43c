/* head.h - checks the head of a stream, once for each reader, so that sizes and counters can be multiplied later
 * without overflow. */
#ifndef MF_STREAM_HEAD_H
#define MF_STREAM_HEAD_H

#include "stream/frame.h"

enum {
    MF_LAG_MAX = 1,             /* versions that a policy may be behind: `max_lag` */
    MF_ROUND_DIM_MAX = 1 << 20, /* environments of a source, `num_envs`, and decisions of each in a round, `steps` */
};

/* MF_EFORMAT, with the field and its value, where the format is another or a number is out of range. */
int mf_head_check(const struct mf_frame *head, struct mf_err *err);

#endif
