/* lessons.h - demonstrations cut into what a cloner learns from: an observation history and the chunk that follows.
 *
 * One sample per step of a demonstration. At its beginning the first
 * observation is repeated, past its end the last action.
 */
#ifndef MF_FLOW_LESSONS_H
#define MF_FLOW_LESSONS_H

#include "data/demos.h"
#include "flow/policy.h"

struct mf_lessons {
    size_t n;
    float *obs;     /* (n, O) normalised */
    float *actions; /* (n, D) normalised; action_offset of the D lie before the step */
};

enum mf_normalizer { MF_LIMITS, MF_GAUSSIAN, MF_IDENTITY };

/* The policy's normaliser from the data. LIMITS: the range of a feature to [-1, 1], a range below `floor` as if it were
 * that; a feature that does not vary is only moved to 0. The rows of a key of several dimensions (points, pixels) share
 * their last dimension's; bytes go from [0, 255] to [-1, 1]. Actions: the same, or as they are. */
void mf_lessons_fit(struct mf_policy *p, const struct mf_demos *d, enum mf_normalizer how, double floor, bool actions);

/* Under the policy's spec and normaliser. */
int mf_lessons_cut(struct mf_lessons *l, const struct mf_policy *p, const struct mf_demos *d, struct mf_err *err);
void mf_lessons_release(struct mf_lessons *l); /* safe on a zeroed one */

#endif
