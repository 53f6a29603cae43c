/* attention.h - a call of attention, as its kernels take it.
 *
 * aux holds, for each head of each block of rows, the weights (queries, keys) before they are divided by their sum,
 * negative where dropped, and after `padded` such rows 1 over that sum.
 */
#ifndef MF_CUDA_ATTENTION_H
#define MF_CUDA_ATTENTION_H

#include "cuda/tiles.h"

extern "C" {
#include "base/rng.h"
#include "op/how.h"
}

enum {
    MF_ATTENTION_ROOM = 99 << 10, /* bytes of shared memory: the most of the smallest GPU */
    MF_FEW_BLOCKS = 256 /* fewer leave multiprocessors idle: then more threads share a tile, with the same bits */
};

struct mf_target { /* the gradient of q, k or v */
    float *grad;   /* NULL: not wanted */
    int ld;
    bool add, rest; /* rest: zero the other columns */
    size_t next;    /* above 0: in work memory, (samples, heads or 1, rows, ..): from a sample to the next */
};

struct mf_attention { /* a call */
    struct mf_tensor x[3], y;
    struct mf_attend how;
    const float *key;
    float *aux;
    int n, queries, keys, dim, out; /* of a head of a block of rows */
    int padded;
    bool fours, whole; /* rows of all operands, and of weights, divide into packs of 4 */
    int tile;          /* queries of a tile, a multiple of 16 */
    int some;          /* forward, queries of a block of threads: fewer where there are few, or very many keys */
    struct mf_target to[3];
};

cudaError_t mf_attend_forward(const struct mf_attention *a, cudaStream_t stream);
cudaError_t mf_attend_backward(const struct mf_attention *a, cudaStream_t stream);
/* Of calls with masks, groups of heads, or keys of two operands. */
cudaError_t mf_attend_plain(const struct mf_kernel_call *k);
cudaError_t mf_attend_plain_back(const struct mf_kernel_call *k);

/* Queries of a tile, where there are so many tiles. */
static inline int mf_queries_of(const struct mf_attention *a, int tiles)
{
    return mf_tiles_of(mf_tiles_of(a->queries, tiles), 16) * 16;
}

static inline unsigned mf_heads_of(const struct mf_attention *a)
{
    return (unsigned)((a->y.shared ? 1 : a->n) * a->how.blocks * a->how.heads);
}

struct mf_head {
    int sample, block, head, part; /* part: of the sample's */
    float *keep;
};

__device__ __forceinline__ struct mf_head mf_head_of(const struct mf_attention &a, int i)
{
    struct mf_head h;
    int parts = a.how.blocks * a.how.heads;
    h.sample = i / parts;
    h.part = i - h.sample * parts;
    h.block = h.part / a.how.heads;
    h.head = h.part - h.block * a.how.heads;
    h.keep = a.aux ? a.aux + (size_t)i * (a.keys + 1) * a.padded : NULL;
    return h;
}

/* Floats from the data of operand k (3: the result) to a head's first row. */
__device__ __forceinline__ size_t mf_place(const struct mf_attention &a, const struct mf_head &h, int k)
{
    const struct mf_tensor *t = k < 3 ? &a.x[k] : &a.y;
    int row = (t->shared ? 0 : h.sample * t->rows) + h.block * (t->rows / a.how.blocks);
    return mf_offset(t, a.n, row, (k < 3 ? a.how.at[k] : 0) + h.head * (k < 2 ? a.dim : a.out));
}

__device__ __forceinline__ struct mf_matrix mf_data_of(const struct mf_attention &a, const struct mf_head &h, int k)
{
    const struct mf_tensor *t = k < 3 ? &a.x[k] : &a.y;
    return {t->data + mf_place(a, h, k), mf_row_stride(t)};
}

#endif
