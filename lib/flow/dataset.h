/* dataset.h - dataset windows for behaviour cloning: an observation history and the action chunk that follows it.
 *
 * A sample is the window around one step of a demonstration: n_obs_steps
 * observations that end there, and horizon actions of which action_offset lie
 * before it. Where the window reaches beyond the demonstration, its first or
 * last step is repeated. `before` and `after` limit the number of repeated
 * steps, as pad_before and pad_after of diffusion policy's data sets.
 * robomimic's pad_frame_stack and pad_seq_length allow all (true) or none
 * (false) of them.
 */
#ifndef MF_FLOW_DATASET_H
#define MF_FLOW_DATASET_H

#include "base/augment.h"
#include "base/mem.h"
#include "base/resize.h"
#include "base/shift.h"
#include "demos/demos.h"
#include "flow/policy.h"

enum mf_augmentation { MF_AUGMENT_NONE, MF_AUGMENT_OPENPI };
enum mf_normalizer { MF_LIMITS, MF_GAUSSIAN, MF_IDENTITY, MF_QUANTILE };

struct mf_fit {
    enum mf_normalizer how;
    double floor;                                        /* smallest range that LIMITS scales up */
    bool actions;                                        /* normalise the actions, too */
    void (*progress)(void *arg, size_t done, size_t of); /* called after each demonstration; or NULL */
    void *arg;
};

/* Fits the policy's normaliser to the data in one pass, QUANTILE in two. LIMITS maps the range of a feature to [-1, 1];
 * a range below `floor` counts as `floor`, and a constant feature is only shifted to 0. QUANTILE maps the quantiles of
 * 1 % and 99 % to -1 and 1, and does not clip: 2 (x - q01)/(q99 - q01 + 1e-6) - 1 (pi0.5, arXiv 2504.16054); a constant
 * feature is shifted to -1. Bytes always map 0..255 to [-1, 1], tokens stay as they are. The network normalises
 * pictures itself. */
int mf_dataset_fit(struct mf_policy *p, struct mf_demos *d, const struct mf_fit *f, struct mf_err *err);

/* MF_EUSAGE: a token in their file has no embedding in the policy's network. */
int mf_dataset_check(const struct mf_policy_spec *s, struct mf_demos *d, struct mf_err *err);

struct mf_dataset {
    size_t n; /* samples, ordered by demonstration and time */
    const struct mf_policy *p;
    struct mf_demos *d;
    int64_t begin;         /* the step of a demonstration's first sample */
    struct mf_shift shift; /* of its pictures */
    enum mf_augmentation augmentation;
    struct mf_resizer pictures;
    uint64_t seed; /* of the minibatch drawn last, and its number: of shifts and augmentations, too */
    int64_t step;
    float *scratch;
    size_t *first;           /* (n_demos + 1) first sample of each demonstration; then n */
    uint32_t *order, *batch; /* all samples, shuffled; a minibatch of them */
    uint64_t *sort;          /* a minibatch in the file's order */
    int64_t epoch;           /* the epoch of `order`; -1: none yet */
    struct mf_arena arena;
};

/* Borrows the demonstrations and the policy; minibatches have at most `batch` samples. before, after < 0: as many steps
 * as the window needs. shift: pixels by which pictures are moved at random; the window of policy.crop is drawn at
 * random, too, and moved pictures are augmented (augment.h). MF_EUSAGE where no demonstration is long enough for one
 * sample, and where there is nothing to augment, or depth, which would no longer match its augmented picture. */
int mf_dataset_open(struct mf_dataset *w, const struct mf_policy *p, struct mf_demos *d, int64_t before, int64_t after,
                    int shift, enum mf_augmentation augmentation, size_t batch, struct mf_err *err);
void mf_dataset_close(struct mf_dataset *w);                      /* safe on a zeroed one */
size_t mf_dataset_memory(const struct mf_demos *d, size_t batch); /* bytes of the indices, at most */

/* The indices of minibatch `step`, of n samples, in the endless sequence of a seed's shuffled epochs; valid until the
 * next call. */
const uint32_t *mf_dataset_draw(struct mf_dataset *w, uint64_t seed, int64_t step, size_t n);

/* Samples index[0..n): obs (n, O) and actions (n, D), both normalised. Shifts and augmentations are those of the
 * minibatch drawn last. */
int mf_dataset_batch(struct mf_dataset *w, size_t n, const uint32_t *index, float *obs, float *actions,
                     struct mf_err *err);
/* The observations alone, (n, O) normalised, not shifted or augmented, of the steps that come ahead[i] after those of
 * samples index[0..n). */
int mf_dataset_after(struct mf_dataset *w, size_t n, const uint32_t *index, const int32_t *ahead, float *obs,
                     struct mf_err *err);

#endif
