/* step.h - from the gradients of the lanes to a step of the weights. The device decides: norms, veto, clipping, counts
 * of steps. So a captured graph holds all of it, and the host waits for nothing.
 */
#ifndef MF_CUDA_STEP_H
#define MF_CUDA_STEP_H

#include "cuda/kernel.h"

/* Lanes are added in pairs, pairs in pairs, and so on: a tree over the lanes. A row is the sum of a whole subtree, in
 * the place of its first lane. Rows of lanes that follow one another are a mask: bit l, a row begins with lane l. */
typedef uint64_t mf_rows;

/* Lanes [first, end) as the fewest rows. */
mf_rows mf_rows_of(int first, int end);
/* The lanes of the row that begins with lane l of n. */
int mf_rows_lanes(mf_rows rows, int l, int n);
int mf_rows_before(mf_rows rows, int l);
/* The same lanes, each its own row. */
static inline mf_rows mf_rows_single(int lanes)
{
    return ~(mf_rows)0 >> (MF_LANES_MAX - lanes);
}

/* to[j] = the tree over the rows of lanes that begin at `lanes`; to may be the first of them. Lanes are `stride` floats
 * apart, a multiple of 4; all memory begins at a multiple of 16 bytes, and has room for `floats` rounded up to 4. */
cudaError_t mf_lanes_sum(float *to, const float *lanes, size_t stride, mf_rows rows, size_t floats,
                         cudaStream_t stream);

/* All that changes from step to step. The host fills one and copies it to the device's. */
struct mf_step_in {
    struct mf_step step; /* all that `of` points to is the device's */
    size_t n;            /* samples, of the veto */
};

struct mf_steps; /* of a listing; it remembers the vetoes of an update */

/* Of these weights, the GPU's copy of the listing's. The stream copies a table of the listing's pieces, and is waited
 * for. */
cudaError_t mf_steps_new(struct mf_steps **s, const struct mf_listing *l, float *weights, cudaStream_t stream);
void mf_steps_free(struct mf_steps *s); /* NULL: nothing */

/* The step of the weights by `grads` (lane): three kernels. in, verdict, grads and veto (n, by sample) are
 * the device's. A step that is not taken changes the verdict alone. */
cudaError_t mf_steps_step(const struct mf_steps *s, const struct mf_step_in *in, struct mf_verdict *verdict,
                          const float *grads, const float *veto, cudaStream_t stream);

#endif
