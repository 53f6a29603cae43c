/* lessons.h - demonstrations cut into what a cloner learns from: an observation history and the chunk that follows.
 *
 * A sample is the window around one step of a demonstration: n_obs_steps
 * observations that end there, and horizon actions of which action_offset lie
 * before it. Where the window reaches beyond the demonstration its first or
 * last step is repeated; `before` and `after` say by how many steps it may, as
 * pad_before and pad_after of diffusion policy's data sets. robomimic's
 * pad_frame_stack and pad_seq_length are all (true) or 0 (false) of them.
 */
#ifndef MF_FLOW_LESSONS_H
#define MF_FLOW_LESSONS_H

#include "base/err.h"
#include "demos/demos.h"
#include "flow/policy.h"

enum mf_normalizer { MF_LIMITS, MF_GAUSSIAN, MF_IDENTITY };

struct mf_fit {
    enum mf_normalizer how;
    double floor;                                        /* least range that LIMITS stretches */
    bool actions;                                        /* they too, or as they are */
    void (*progress)(void *arg, size_t done, size_t of); /* told after each demonstration; NULL: nobody */
    void *arg;
};

/* The policy's normaliser from the data, which is read once through. LIMITS: the range of a feature to [-1, 1], a
 * range below `floor` as if it were that; a feature that does not vary is only moved to 0. Bytes: 0..255 to [-1, 1],
 * whatever they hold. */
int mf_lessons_fit(struct mf_policy *p, struct mf_demos *d, const struct mf_fit *f, struct mf_err *err);

struct mf_lessons {
    size_t n; /* samples: a demonstration's follow each other, by time */
    const struct mf_policy *p;
    struct mf_demos *d;
    int64_t begin;           /* the step that a demonstration's first sample is about */
    size_t *first;           /* (n_demos + 1): of a demonstration, its first sample; then n */
    uint64_t *sort;          /* a batch in the file's order */
    size_t room;             /* of sort and of batch */
    uint32_t *order, *batch; /* a shuffle of all samples; a minibatch of them */
    int64_t epoch;           /* that `order` is of; -1: none yet */
};

/* Of the demonstrations and the policy's spec, which both stay the caller's. before, after: < 0 is all that the window
 * needs. MF_EUSAGE where no demonstration is long enough for one sample. */
int mf_lessons_open(struct mf_lessons *l, const struct mf_policy *p, struct mf_demos *d, int64_t before, int64_t after,
                    struct mf_err *err);
void mf_lessons_close(struct mf_lessons *l); /* safe on a zeroed one */

/* Minibatch `step`, of n samples, of the endless row of a seed's shuffled epochs: their indices, until the next call.
 */
const uint32_t *mf_lessons_draw(struct mf_lessons *l, uint64_t seed, int64_t step, size_t n);

/* Samples index[0..n): obs (n, O) and actions (n, D), both normalised. */
int mf_lessons_batch(struct mf_lessons *l, size_t n, const uint32_t *index, float *obs, float *actions,
                     struct mf_err *err);

#endif
