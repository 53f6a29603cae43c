/* attend_backward.cu - attention backward: a block of threads takes one head of one sample. */
#include "cuda/attention.h"

struct matrices { /* of a head, in shared memory: in registers they would leave too few for the products */
    struct mf_matrix x[3], dy, to[3];
};

struct backward_room { /* floats of shared memory, after struct matrices */
    int t_stride, w_stride, Z, dS, P, delta, size, warps, all;
};

static struct backward_room backward_room_of(const struct mf_attention &a)
{
    struct backward_room r;
    int wide = a.dim > a.out ? a.dim : a.out, keys = mf_least(a.keys, MF_TILE);
    r.t_stride = mf_stride_of(mf_least(wide, MF_TILE));
    r.w_stride = mf_stride_of(keys);
    r.Z = a.tile * r.t_stride;
    r.dS = r.Z + 4 * mf_fours_of(keys) * r.t_stride;
    r.P = r.dS + a.tile * r.w_stride;
    r.delta = r.P + a.tile * r.w_stride;
    r.size = r.delta + a.queries;
    r.warps = r.size + a.queries;
    r.all = r.warps + MF_BLOCK / 32;
    return r;
}

/* The sums dO . O of queries, and 1 over the sums of their weights: 0 where no gradient comes, and then nothing else is
 * read for the query. Whether any comes. */
template <bool fours>
__device__ __forceinline__ bool prepare(const struct mf_attention &a, const struct mf_head &h, float *delta,
                                        float *size, float *any)
{
    size_t at = mf_place(a, h, 3);
    const float *y = a.y.data + at, *dy = a.y.grad + at;
    int lane = threadIdx.x % 4;
    float some = 0.0f;
    for (int first = 0; first < a.queries; first += blockDim.x / 4) {
        int i = first + threadIdx.x / 4, out = i < a.queries ? a.out : 0;
        float sum = 0.0f, live = 0.0f;
#pragma unroll 2
        for (int d = 4 * lane; d < out; d += 16) {
            size_t here = (size_t)i * a.y.cols + d;
            mf_pack<4> g = {}, o = {};
            if (fours) {
                g = *(const mf_pack<4> *)(dy + here);
                o = *(const mf_pack<4> *)(y + here);
            } else {
                for (int c = 0; c < 4 && d + c < out; c++)
                    g.of[c] = dy[here + c], o.of[c] = y[here + c];
            }
#pragma unroll
            for (int c = 0; c < 4; c++) {
                sum = g.of[c] == 0.0f ? sum : fmaf(g.of[c], o.of[c], sum);
                live = g.of[c] == 0.0f ? live : 1.0f;
            }
        }
        for (int by = 2; by; by /= 2) {
            sum += __shfl_xor_sync(~0u, sum, by);
            live += __shfl_xor_sync(~0u, live, by);
        }
        if (lane == 0 && i < a.queries) {
            delta[i] = sum;
            size[i] = live > 0.0f ? h.keep[(size_t)a.padded * a.keys + i] : 0.0f;
        }
        some += live;
    }
    for (int by = 16; by; by /= 2)
        some += __shfl_xor_sync(~0u, some, by);
    if (threadIdx.x % 32 == 0)
        any[threadIdx.x / 32] = some;
    __syncthreads();
    some = 0.0f;
    for (int i = 0; i < (int)blockDim.x / 32; i++)
        some += any[i];
    return some > 0.0f;
}

__device__ __forceinline__ void zero(float *to, int ld, int rows, int cols)
{
    for (int row = threadIdx.x / 32; row < rows; row += blockDim.x / 32)
        for (int j = threadIdx.x % 32; j < cols; j += 32)
            to[(size_t)row * ld + j] = 0.0f;
}

/* Zeros a head's share of the columns that the call does not read. */
__device__ __forceinline__ void zero_rest(const struct mf_attention &a, const struct mf_head &h, int k)
{
    const struct mf_tensor *t = &a.x[k];
    int from = a.how.at[k], cols = k < 2 ? a.how.dim : a.how.out, rest = t->cols - cols, rows = t->rows / a.how.blocks;
    int first = (int)((long long)rest * h.head / a.how.heads),
        last = (int)((long long)rest * (h.head + 1) / a.how.heads), split = first < from ? mf_least(last, from) : first;
    float *g = t->grad + (size_t)((t->shared ? 0 : h.sample * t->rows) + h.block * rows) * t->cols;
    zero(g + first, t->cols, rows, split - first);
    zero(g + split + cols, t->cols, rows, last - split);
}

/* The gradient of operand k. */
__device__ __forceinline__ struct mf_matrix grad_of(const struct mf_attention &a, const struct mf_head &h, int k)
{
    const struct mf_target *t = &a.to[k];
    int rows = a.x[k].rows / a.how.blocks, width = k < 2 ? a.dim : a.out;
    if (!t->grad || !t->next)
        return {t->grad ? t->grad + mf_place(a, h, k) : NULL, t->ld};
    int row = h.block * rows + (a.x[k].heads > 1 ? h.head * a.x[k].rows : 0);
    return {t->grad + h.sample * t->next + (size_t)row * t->ld + (a.x[k].heads > 1 ? 0 : h.head * width), t->ld};
}

struct backward { /* a block of threads: keys from `key` on, queries from `query` on */
    const struct mf_attention &a;
    const struct matrices &m;
    float *X, *Z, *dS, *P; /* tiles of queries and of keys; (queries, keys) */
    const float *delta, *size, *keep;
    const struct backward_room &room;
    struct mf_square me;
    int key, keys, query, queries;
};

/* dP = dO V^T becomes dS; the weights. */
template <bool fours, int P> __device__ __forceinline__ void to_scores(const struct backward &b)
{
    const struct mf_attention &a = b.a;
    int apart = a.tile / P, groups = mf_fours_of(b.keys) * 4 / P, stride = b.room.t_stride;
    float kept = 1.0f / (1.0f - a.how.drop), sum[P][P];
    mf_clear<P>(sum);
    for (int d = 0; d < a.out; d += MF_TILE) {
        int cols = mf_least(a.out - d, MF_TILE);
        __syncthreads();
        mf_stage<fours>(b.X, stride, b.m.dy, b.query, d, b.queries, cols, NULL);
        mf_stage<fours>(b.Z, stride, b.m.x[2], b.key, d, b.keys, cols, NULL);
        mf_staged();
        if (b.me.col < groups)
            mf_rows_by_rows<P>(sum, cols, b.X + b.me.row * stride, apart * stride, b.Z + b.me.col * stride,
                               groups * stride);
    }
    if (b.me.col >= groups)
        return;
    const float *delta = b.delta + b.query, *size = b.size + b.query, *keep = b.keep + (size_t)b.query * a.keys + b.key;
#pragma unroll
    for (int i = 0; i < P * P; i++) {
        int row = b.me.row + i / P * apart, col = b.me.col + i % P * groups, at = row * b.room.w_stride + col;
        float ds = 0.0f, p = 0.0f;
        if (row < b.queries && col < b.keys && size[row] != 0.0f) {
            float e = keep[(size_t)row * a.keys + col];
            p = fabsf(e) * size[row];
            ds = a.how.scale * p * ((e < 0.0f ? 0.0f : sum[i / P][i % P] * kept) - delta[row]);
            p = e < 0.0f ? 0.0f : p * kept;
        }
        b.dS[at] = ds;
        b.P[at] = p;
    }
}

/* To rows of keys: sums over the queries of w[query][key] x[query][column], x in columns from d on. */
template <bool fours, int P>
__device__ __forceinline__ void to_keys(const struct backward &b, int k, int d, int cols, const float *w)
{
    const struct mf_matrix &m = b.m.to[k];
    for (int i = threadIdx.x; i < MF_TILE * MF_TILE / (P * P); i += blockDim.x) {
        struct mf_square p = mf_square_of<P>(i);
        int row = P * p.row, col = P * p.col;
        float sum[P][P];
        if (row >= b.keys || col >= cols)
            continue;
        mf_clear<P>(sum);
        mf_cols_by_cols<P>(sum, b.queries, w + row, b.room.w_stride, b.X + col, b.room.t_stride);
        float *to = m.at + (size_t)(b.key + row) * m.ld + d + col;
#pragma unroll
        for (int r = 0; r < P; r++)
            if (row + r < b.keys)
                mf_put<fours, P>(to + (size_t)r * m.ld, sum[r], 1.0f, cols - col, b.a.to[k].add || b.query > 0);
    }
}

/* To rows of queries: sums over the keys. A query without a gradient gets 0, whatever the keys are. */
template <bool fours, int P> __device__ __forceinline__ void to_queries(const struct backward &b, int d, int cols)
{
    const struct mf_matrix &m = b.m.to[0];
    int apart = b.a.tile / P, at[P], col = P * b.me.col;
    float sum[P][P];
    if (col >= cols)
        return;
    mf_clear<P>(sum);
#pragma unroll
    for (int r = 0; r < P; r++)
        at[r] = (b.me.row + r * apart) * b.room.w_stride;
    mf_rows_by_cols<P>(sum, b.keys, b.dS, at, b.Z + col, b.room.t_stride);
#pragma unroll
    for (int r = 0; r < P; r++) {
        int row = b.me.row + r * apart;
        if (row >= b.queries)
            continue;
#pragma unroll
        for (int c = 0; c < P; c++)
            sum[r][c] = b.size[b.query + row] == 0.0f ? 0.0f : sum[r][c];
        mf_put<fours, P>(m.at + (size_t)(b.query + row) * m.ld + d + col, sum[r], 1.0f, cols - col,
                         b.a.to[0].add || b.key > 0);
    }
}

template <bool fours, int P> __device__ __forceinline__ void tile_back(const struct backward &b)
{
    const struct mf_attention &a = b.a;
    to_scores<fours, P>(b);
    for (int d = 0; d < a.out && a.to[2].grad; d += MF_TILE) {
        int cols = mf_least(a.out - d, MF_TILE);
        __syncthreads();
        if (a.out > MF_TILE) { /* else it is there */
            mf_stage<fours>(b.X, b.room.t_stride, b.m.dy, b.query, d, b.queries, cols, NULL);
            mf_staged();
        }
        to_keys<fours, P>(b, 2, d, cols, b.P);
    }
    for (int d = 0; d < a.dim && (a.to[0].grad || a.to[1].grad); d += MF_TILE) {
        int cols = mf_least(a.dim - d, MF_TILE);
        __syncthreads();
        mf_stage<fours>(b.X, b.room.t_stride, b.m.x[0], b.query, d, b.queries, cols, b.size + b.query);
        mf_stage<fours>(b.Z, b.room.t_stride, b.m.x[1], b.key, d, b.keys, cols, NULL);
        mf_staged();
        if (a.to[1].grad)
            to_keys<fours, P>(b, 1, d, cols, b.dS);
        if (a.to[0].grad)
            to_queries<fours, P>(b, d, cols);
    }
}

template <bool fours, int P>
__global__ void __launch_bounds__(MF_BLOCK, fours ? 3 : 2)
    attention_backward(const struct mf_attention a, const struct backward_room room)
{
    struct matrices *m = mf_shared<struct matrices>();
    float *X = (float *)(m + 1), *delta = X + room.delta, *size = X + room.size;
    struct mf_head h = mf_head_of(a, blockIdx.x);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 3; i++) {
            m->x[i] = mf_data_of(a, h, i);
            m->to[i] = grad_of(a, h, i);
        }
        m->dy = {a.y.grad + mf_place(a, h, 3), a.y.cols};
    }
    for (int i = 0; i < 3; i++)
        if (a.to[i].rest)
            zero_rest(a, h, i);
    if (!prepare<fours>(a, h, delta, size, X + room.warps)) {
        for (int i = 0; i < 3; i++)
            if (a.to[i].grad && !a.to[i].add)
                zero(m->to[i].at, m->to[i].ld, a.x[i].rows / a.how.blocks, i < 2 ? a.dim : a.out);
        return;
    }
    struct backward b = {
        a, *m, X, X + room.Z, X + room.dS, X + room.P, delta, size, h.keep, room, mf_square_of<P>(threadIdx.x),
        0, 0,  0, 0};
    for (b.key = 0; b.key < a.keys; b.key += MF_TILE)
        for (b.query = 0; b.query < a.queries; b.query += a.tile) {
            b.keys = mf_least(a.keys - b.key, MF_TILE);
            b.queries = mf_least(a.queries - b.query, a.tile);
            tile_back<fours, P>(b);
        }
}

static size_t bytes_of(const struct mf_attention *a)
{
    return sizeof(struct matrices) + (size_t)backward_room_of(*a).all * sizeof(float);
}

cudaError_t mf_attend_backward(const struct mf_attention *of, cudaStream_t stream)
{
    struct mf_attention a = *of;
    int tiles = mf_tiles_of(a.queries, MF_TILE);
    do
        a.tile = mf_queries_of(&a, tiles++);
    while (bytes_of(&a) > MF_ATTENTION_ROOM && a.tile > 16);
    bool few = a.tile == 16 && mf_heads_of(&a) < MF_FEW_BLOCKS;
    void (*form)(struct mf_attention, struct backward_room) =
        few       ? a.fours ? attention_backward<true, 2> : attention_backward<false, 2>
              : a.fours ? attention_backward<true, 4>
                  : attention_backward<false, 4>;
    return mf_launch(stream, dim3(mf_heads_of(&a)), dim3((few ? 16 : 4) * a.tile), bytes_of(&a), form, a,
                     backward_room_of(a));
}
