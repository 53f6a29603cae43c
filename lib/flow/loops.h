/* loops.h - shared by the reference loops of the flow's operations. */
#ifndef MF_FLOW_LOOPS_H
#define MF_FLOW_LOOPS_H

#include "dev/ref.h"

static const float MF_LOG_2PI = 1.8378770664093453f;

static inline float mf_flow_kept(float x, float limit)
{
    return limit <= 0.0f ? x : x < -limit ? -limit : x > limit ? limit : x;
}

/* The std of element d of row i: coefficient 2, times operand 3 where there is one. */
static inline float mf_flow_std(const struct mf_call *c, int i, int d)
{
    float s = mf_ref_row(c, 2, i)[2];
    return c->n_x > 3 ? s * mf_ref_row(c, 3, i)[d] : s;
}

#endif
