/* attend_forward.cu - attention forward: a block of threads takes queries of one head of one sample. The scores of all
 * keys are in shared memory.
 */
#include "cuda/attention.h"

enum {
    DEEP = 128, /* columns of keys in shared memory at once */
    SLOTS = 4   /* tiles in shared memory where there are few blocks: those ahead are on their way */
};

struct forward_room { /* floats of shared memory */
    int q_stride, t_stride, s_stride, tile, slot, scores, sizes, all;
};

static struct forward_room forward_room_of(const struct mf_attention &a, int slots)
{
    struct forward_room r;
    int deep = mf_stride_of(mf_least(a.dim, DEEP)), wide = 4 * mf_fours_of(mf_least(a.out, MF_TILE));
    r.q_stride = mf_stride_of(a.dim);
    r.t_stride = deep > wide ? deep : wide;
    r.s_stride = mf_stride_of(a.keys);
    r.tile = a.tile * r.q_stride;
    r.slot = 4 * mf_fours_of(mf_least(a.keys, MF_TILE)) * r.t_stride;
    r.scores = r.tile + slots * r.slot;
    r.sizes = r.scores + a.some * r.s_stride;
    r.all = r.sizes + a.some;
    return r;
}

struct forward { /* a block of threads: queries from `first` on */
    const struct mf_attention &a;
    const struct forward_room &room;
    struct mf_head h;
    struct mf_square me;
    float *Q, *T, *S,
        *sizes; /* queries; slots for tiles of keys and values; scores, and 1 over sums of their weights */
    int first, queries;
    int deep, keys; /* tiles of keys, of which `deep` share rows; then come tiles of values */
};

/* Scores become weights e^(s - max). The threads that share a query are by the number of keys. */
__device__ __forceinline__ void softmax(const struct forward &f, int i, int lane, int lanes)
{
    const struct mf_attention &a = f.a;
    int keys = i < f.queries ? a.keys : 0;
    float *row = f.S + i * f.room.s_stride, *keep = f.h.keep + (size_t)(f.first + i) * a.keys;
    float most = -INFINITY, sum = 0.0f;
    struct mf_rng draws = {};
    bool drops = a.how.drop > 0.0f;
    for (int j = 4 * lane; j < keys; j += 4 * lanes) {
        mf_pack<4> s = *(mf_pack<4> *)(row + j);
#pragma unroll
        for (int c = 0; c < 4; c++)
            most = j + c < keys && s.of[c] > most ? s.of[c] : most;
    }
    for (int by = lanes / 2; by; by /= 2) {
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
    for (int j = 4 * lane; j < keys; j += 4 * lanes) {
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
    for (int by = lanes / 2; by; by /= 2)
        sum += __shfl_xor_sync(~0u, sum, by);
    if (lane || i >= f.queries)
        return;
    f.sizes[i] = 1.0f / sum / (1.0f - a.how.drop);
    if (f.h.keep)
        f.h.keep[(size_t)a.padded * a.keys + f.first + i] = 1.0f / sum;
}

__device__ __forceinline__ void softmax_all(const struct forward &f)
{
    int lanes = f.a.keys <= 16 ? 4 : f.a.keys <= 64 ? 8 : 16, rows = blockDim.x / lanes;
    for (int i = threadIdx.x / lanes; i < f.a.tile; i += rows)
        softmax(f, i, threadIdx.x % lanes, lanes);
}

/* Begins to copy tile t to its slot; of tiles beyond the last there is none. */
template <bool fours, int slots>
__device__ __forceinline__ void fetch(const struct forward &f, const struct mf_matrix &k, const struct mf_matrix &v,
                                      int t, int tiles)
{
    const struct mf_attention &a = f.a;
    float *to = f.T + t % slots * f.room.slot;
    int rows = mf_tiles_of(a.keys, MF_TILE), of = t - f.keys;
    if (t < f.keys) {
        int j = t / f.deep * MF_TILE, d = t % f.deep * DEEP;
        mf_stage<fours>(to, f.room.t_stride, k, j, d, mf_least(a.keys - j, MF_TILE), mf_least(a.dim - d, DEEP), NULL);
    } else if (t < tiles) {
        int j = of % rows * MF_TILE, d = of / rows * MF_TILE;
        mf_stage<fours>(to, f.room.t_stride, v, j, d, mf_least(a.keys - j, MF_TILE), mf_least(a.out - d, MF_TILE),
                        NULL);
    }
    mf_copy_group();
}

/* S = scale Q K^T: a tile's part of it. */
template <int P>
__device__ __forceinline__ void to_scores(const struct forward &f, const float *T, int t, float sum[P][P])
{
    const struct mf_attention &a = f.a;
    int j = t / f.deep * MF_TILE, d = t % f.deep * DEEP, keys = mf_least(a.keys - j, MF_TILE), apart = a.tile / P,
        groups = mf_fours_of(keys) * 4 / P;
    if (f.me.col >= groups)
        return;
    if (d == 0)
        mf_clear<P>(sum);
    mf_rows_by_rows<P>(sum, mf_least(a.dim - d, DEEP), f.Q + f.me.row * f.room.q_stride + d, apart * f.room.q_stride,
                       T + f.me.col * f.room.t_stride, groups * f.room.t_stride);
    if (d + DEEP < a.dim)
        return;
#pragma unroll
    for (int i = 0; i < P * P; i++) {
        int row = f.me.row + i / P * apart, col = f.me.col + i % P * groups;
        if (row < f.queries && col < keys)
            f.S[row * f.room.s_stride + j + col] = a.how.scale * sum[i / P][i % P];
    }
}

/* The result: weights times values, divided by their sums. */
template <bool fours, int P>
__device__ __forceinline__ void to_result(const struct forward &f, const struct mf_matrix &y, const float *T, int of,
                                          float sum[P][P])
{
    const struct mf_attention &a = f.a;
    int rows = mf_tiles_of(a.keys, MF_TILE), j = of % rows * MF_TILE, d = of / rows * MF_TILE + P * f.me.col,
        apart = a.tile / P, at[P];
    if (d >= a.out)
        return;
    if (j == 0)
        mf_clear<P>(sum);
#pragma unroll
    for (int r = 0; r < P; r++)
        at[r] = mf_least(f.me.row + r * apart, a.some - 1) * f.room.s_stride;
    mf_rows_by_cols<P>(sum, mf_least(a.keys - j, MF_TILE), f.S + j, at, T + P * f.me.col, f.room.t_stride);
    if (j + MF_TILE < a.keys)
        return;
#pragma unroll
    for (int r = 0; r < P; r++) {
        int row = f.me.row + r * apart;
        if (row < f.queries)
            mf_put<fours, P>(y.at + (size_t)(f.first + row) * y.ld + d, sum[r], f.sizes[row], a.out - d, false);
    }
}

template <bool fours, int P, int slots>
__global__ void __launch_bounds__(MF_BLOCK, 3)
    attention_forward(const struct mf_attention a, const struct forward_room room)
{
    float *Q = mf_shared<float>();
    int blocks = mf_tiles_of(a.queries, a.some), part = blockIdx.x / blocks,
        first = (blockIdx.x - part * blocks) * a.some, queries = mf_least(a.queries - first, a.some);
    int rows = mf_tiles_of(a.keys, MF_TILE), deep = mf_tiles_of(a.dim, DEEP);
    struct mf_head h = mf_head_of(a, part);
    struct forward f = {a,
                        room,
                        h,
                        mf_square_of<P>(threadIdx.x),
                        Q,
                        Q + room.tile,
                        Q + room.scores,
                        Q + room.sizes,
                        first,
                        queries,
                        deep,
                        rows * deep};
    struct mf_matrix q = mf_data_of(a, h, 0), k = mf_data_of(a, h, 1), v = mf_data_of(a, h, 2), y = mf_data_of(a, h, 3);
    int tiles = f.keys + rows * mf_tiles_of(a.out, MF_TILE);
    float sum[P][P];
    mf_stage<fours>(Q, room.q_stride, q, first, 0, queries, a.dim, NULL);
    for (int t = 0; t < slots; t++)
        fetch<fours, slots>(f, k, v, t, tiles);
    for (int t = 0; t < tiles; t++) {
        const float *T = f.T + t % slots * room.slot;
        if (t == f.keys)
            softmax_all(f); /* the barrier before saw the last scores */
        mf_copy_wait<slots - 1>();
        __syncthreads();
        if (t < f.keys)
            to_scores<P>(f, T, t, sum);
        else
            to_result<fours, P>(f, y, T, t - f.keys, sum);
        __syncthreads();
        fetch<fours, slots>(f, k, v, t + slots, tiles);
    }
    mf_copy_wait<0>();
}

static size_t bytes_of(const struct mf_attention *a, int slots)
{
    return (size_t)forward_room_of(*a, slots).all * sizeof(float);
}

/* The bits do not depend on these sizes. */
cudaError_t mf_attend_forward(const struct mf_attention *of, cudaStream_t stream)
{
    struct mf_attention a = *of;
    int tiles = mf_tiles_of(a.queries, MF_TILE), slots = 1;
    bool few = mf_heads_of(&a) * tiles < MF_FEW_BLOCKS;
    do {
        a.tile = few ? 16 : mf_queries_of(&a, tiles++);
        a.some = mf_least(a.tile, a.queries);
    } while (bytes_of(&a, 1) > MF_ATTENTION_ROOM && a.tile > 16);
    while (bytes_of(&a, 1) > MF_ATTENTION_ROOM && a.some > 1)
        a.some /= 2;
    if (few && bytes_of(&a, SLOTS) <= MF_ATTENTION_ROOM)
        slots = SLOTS;
    void (*form)(struct mf_attention, struct forward_room) =
        !few        ? (a.fours ? attention_forward<true, 4, 1> : attention_forward<false, 4, 1>)
        : slots > 1 ? (a.fours ? attention_forward<true, 2, SLOTS> : attention_forward<false, 2, SLOTS>)
                    : (a.fours ? attention_forward<true, 2, 1> : attention_forward<false, 2, 1>);
    tiles = mf_tiles_of(a.queries, a.some);
    return mf_launch(stream, dim3(mf_heads_of(&a) * tiles), dim3((few ? 16 : 4) * a.tile), bytes_of(&a, slots), form, a,
                     forward_room_of(a, slots));
}
