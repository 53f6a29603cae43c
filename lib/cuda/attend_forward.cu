/* attend_forward.cu - attention forward: a block of threads takes queries of one head of one sample. The scores of all
 * keys are in shared memory.
 */
#include "cuda/attention.h"

enum { DEEP = 128 }; /* columns of queries and keys in shared memory at once */

struct forward_room { /* floats of shared memory */
    int q_stride, t_stride, s_stride, tile, sums, size;
};

static struct forward_room forward_room_of(const struct mf_attention &a)
{
    struct forward_room r;
    r.q_stride = mf_stride_of(mf_least(a.dim, DEEP));
    int wide = 4 * mf_fours_of(mf_least(a.out, MF_TILE)), keys = 4 * mf_fours_of(mf_least(a.keys, MF_TILE));
    r.t_stride = r.q_stride > wide ? r.q_stride : wide;
    r.s_stride = mf_stride_of(a.keys);
    r.tile = a.tile * r.q_stride;
    r.sums = r.tile + keys * r.t_stride;
    r.size = r.sums + a.some * (r.s_stride + 1);
    return r;
}

struct forward { /* a block of threads: queries from `first` on */
    const struct mf_attention &a;
    const struct forward_room &room;
    struct mf_head h;
    struct mf_patch me;
    float *Q, *T, *S, *sizes; /* tiles of queries, and of keys or values; scores, and 1 over sums of their weights */
    int first, queries;
};

/* Scores become weights e^(s - max): 4 threads a query. */
__device__ __forceinline__ void softmax(const struct forward &f)
{
    const struct mf_attention &a = f.a;
    int i = threadIdx.x / 4, lane = threadIdx.x % 4, keys = i < f.queries ? a.keys : 0;
    float *row = f.S + i * f.room.s_stride, *keep = f.h.keep + (size_t)(f.first + i) * a.keys;
    float most = -INFINITY, sum = 0.0f;
    struct mf_rng draws = {};
    bool drops = a.how.drop > 0.0f;
    for (int j = 4 * lane; j < keys; j += 16) {
        mf_pack<4> s = *(mf_pack<4> *)(row + j);
#pragma unroll
        for (int c = 0; c < 4; c++)
            most = j + c < keys && s.of[c] > most ? s.of[c] : most;
    }
    for (int by = 2; by; by /= 2) {
        float other = __shfl_xor_sync(~0u, most, by);
        most = other > most ? other : most;
    }
    if (drops) {
        union {
            float stored;
            uint32_t bits;
        } key = {a.key[f.h.sample]};
        draws = mf_attention_draws(&a.how, key.bits, f.h.part, f.first + i);
    }
    for (int j = 4 * lane; j < keys; j += 16) {
        mf_pack<4> e = *(mf_pack<4> *)(row + j), kept;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            e.of[c] = j + c < keys ? expf(e.of[c] - most) : 0.0f;
            sum += e.of[c];
        }
        kept = e;
        if (drops) {
            draws.counter[0] = (uint32_t)j / 4;
            mf_rng_block(&draws);
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (mf_rng_unit(draws.word[c]) < a.how.drop) {
                    e.of[c] = -e.of[c];
                    kept.of[c] = 0.0f;
                }
        }
        *(mf_pack<4> *)(row + j) = kept;
        if (f.h.keep && a.whole)
            *(mf_pack<4> *)(keep + j) = e;
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (f.h.keep && !a.whole && j + c < keys)
                keep[j + c] = e.of[c];
    }
    for (int by = 2; by; by /= 2)
        sum += __shfl_xor_sync(~0u, sum, by);
    if (lane || i >= f.queries)
        return;
    f.sizes[i] = 1.0f / sum / (1.0f - a.how.drop);
    if (f.h.keep)
        f.h.keep[(size_t)a.padded * a.keys + f.first + i] = 1.0f / sum;
}

/* S = scale Q K^T. */
template <bool fours> __device__ __forceinline__ void scores(const struct forward &f)
{
    const struct mf_attention &a = f.a;
    struct mf_matrix q = mf_data_of(a, f.h, 0), k = mf_data_of(a, f.h, 1);
    int apart = a.tile / 4, q_stride = f.room.q_stride, t_stride = f.room.t_stride;
    for (int j = 0; j < a.keys; j += MF_TILE) {
        int keys = mf_least(a.keys - j, MF_TILE), groups = mf_fours_of(keys);
        float sum[4][4];
        mf_clear(sum);
        for (int d = 0; d < a.dim; d += DEEP) {
            int deep = mf_least(a.dim - d, DEEP);
            __syncthreads();
            if (j == 0 || a.dim > DEEP)
                mf_stage<fours>(f.Q, q_stride, q, f.first, d, f.queries, deep, NULL);
            mf_stage<fours>(f.T, t_stride, k, j, d, keys, deep, NULL);
            __syncthreads();
            if (f.me.col < groups)
                mf_rows_by_rows(sum, deep, f.Q + f.me.row * q_stride, apart * q_stride, f.T + f.me.col * t_stride,
                                groups * t_stride);
        }
        if (f.me.col >= groups)
            continue;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            int row = f.me.row + i / 4 * apart, col = f.me.col + i % 4 * groups;
            if (row < f.queries && col < keys)
                f.S[row * f.room.s_stride + j + col] = a.how.scale * sum[i / 4][i % 4];
        }
    }
}

/* The result: weights times values, divided by their sums. */
template <bool fours> __device__ __forceinline__ void values(const struct forward &f)
{
    const struct mf_attention &a = f.a;
    struct mf_matrix v = mf_data_of(a, f.h, 2), y = mf_data_of(a, f.h, 3);
    int apart = a.tile / 4, stride = f.room.t_stride, at[4], mine = 4 * f.me.col;
#pragma unroll
    for (int r = 0; r < 4; r++)
        at[r] = mf_least(f.me.row + r * apart, a.some - 1) * f.room.s_stride;
    for (int d = 0; d < a.out; d += MF_TILE) {
        int cols = mf_least(a.out - d, MF_TILE);
        float sum[4][4];
        mf_clear(sum);
        for (int j = 0; j < a.keys; j += MF_TILE) {
            int keys = mf_least(a.keys - j, MF_TILE);
            __syncthreads();
            mf_stage<fours>(f.T, stride, v, j, d, keys, cols, NULL);
            __syncthreads();
            if (mine < cols)
                mf_rows_by_cols(sum, keys, f.S + j, at, f.T + mine, stride);
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int row = f.me.row + r * apart;
            if (row < f.queries && mine < cols)
                mf_put<fours>(y.at + (size_t)(f.first + row) * y.ld + d + mine, sum[r], f.sizes[row], cols - mine,
                              false);
        }
    }
}

template <bool fours>
__global__ void __launch_bounds__(4 * MF_TILE, 3)
    attention_forward(const struct mf_attention a, const struct forward_room room)
{
    float *Q = mf_shared<float>(), *S = Q + room.sums;
    int tiles = (a.queries + a.some - 1) / a.some, part = blockIdx.x / tiles,
        first = (blockIdx.x - part * tiles) * a.some;
    struct forward f = {a,
                        room,
                        mf_head_of(a, part),
                        mf_patch_of(threadIdx.x),
                        Q,
                        Q + room.tile,
                        S,
                        S + a.some * room.s_stride,
                        first,
                        mf_least(a.queries - first, a.some)};
    scores<fours>(f);
    __syncthreads();
    softmax(f);
    values<fours>(f);
}

static size_t bytes_of(const struct mf_attention *a)
{
    return (size_t)forward_room_of(*a).size * sizeof(float);
}

cudaError_t mf_attend_forward(const struct mf_attention *of, cudaStream_t stream)
{
    struct mf_attention a = *of;
    int tiles = (a.queries + MF_TILE - 1) / MF_TILE;
    do {
        a.tile = mf_queries_of(&a, tiles++);
        a.some = mf_least(a.tile, a.queries);
    } while (bytes_of(&a) > MF_ATTENTION_ROOM && a.tile > 16);
    while (bytes_of(&a) > MF_ATTENTION_ROOM && a.some > 1)
        a.some /= 2;
    tiles = (a.queries + a.some - 1) / a.some;
    return mf_launch(stream, dim3(mf_heads_of(&a) * tiles), dim3(4 * a.tile), bytes_of(&a),
                     a.fours ? attention_forward<true> : attention_forward<false>, a, forward_room_of(a));
}
