/* product_tile.h - a block computes a tile of C. It copies BK numbers of k at a time of its rows of A and columns of B
 * to shared memory, some steps ahead (cp.async), as they are stored, k along the rows or across them. Operands in fp32
 * are rounded between shared memory and registers; one in bf16 has been rounded when it was stored, to the same bits.
 *
 * fp32: a thread has some rows and columns, and adds products by fmaf from k = 0 upwards. TF32 and bf16: a warp has
 * products of (16, 8) by 8 words of k, a word being one number or two. All sizes of tiles take the same steps over k.
 *
 * Estimated for an H100, never run on a GPU: half of its peak in TF32 and a quarter of that in bf16 (L2 bytes limit
 * both, for operands are fp32 in memory), three quarters in fp32 (instructions do).
 *
 * Rows of shared memory are padded so that the lanes of a warp read different banks: a lane reads row g = lane/4 and
 * word t = lane%4, so rows 4 words apart (mod 32) serve words and rows 8 apart serve pairs of them, and where k runs
 * across the rows the two exchange. In bf16 a word is stored as one, and rows 4 words apart serve both ways.
 */
#ifndef MF_CUDA_PRODUCT_TILE_H
#define MF_CUDA_PRODUCT_TILE_H

#include <gpu.h>

#include "cuda/product.h"

namespace gemm
{
/* ---- to shared memory ---- */

/* Rows [first, first + ROWS) of an operand, k from k0; bit i of live: k0 + i counts. */
template <bool ALONG, int ROWS, int LD, int THREADS>
__device__ __forceinline__ void load(float *to, const struct operand &o, const float *p, int first, int k0,
                                     unsigned live)
{
    constexpr int WIDTH = ALONG ? BK : ROWS, PIECES = ROWS * BK / 4 / THREADS, APART = THREADS * 4 / WIDTH;
    static_assert(ROWS * BK / 4 % THREADS == 0 && THREADS * 4 % WIDTH == 0, "whole rows of pieces");
    int row = threadIdx.x / (WIDTH / 4), col = threadIdx.x % (WIDTH / 4) * 4;
    int left = o.rows - first; /* rows */
    const float *from = p + (size_t)((ALONG ? first : k0) + row) * o.ld + (ALONG ? k0 : first) + col;
    size_t step = (size_t)APART * o.ld;
    to += row * LD + col;
    if (o.wide && left >= ROWS && live == ~0u) {
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            mf_copy4(to + i * APART * LD, from + i * step, true);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < PIECES; i++) {
        int r = row + i * APART;
        unsigned take = ALONG ? (r < left ? live >> col & 15u : 0u)
                              : (live >> r & 1u ? (left - col >= 4 ? 15u
                                                   : left > col    ? (1u << (left - col)) - 1u
                                                                   : 0u)
                                                : 0u);
        if (o.wide && (take == 15u || take == 0u))
            mf_copy4(to + i * APART * LD, from + i * step, take);
        else
#pragma unroll
            for (int e = 0; e < 4; e++)
                mf_copy1(to + i * APART * LD + e, from + i * step + e, take >> e & 1u);
    }
}

/* The same of an operand stored as bf16, in pieces of 8 numbers, which are whole. */
template <bool ALONG, int ROWS, int LD, int THREADS>
__device__ __forceinline__ void load_bf16(float *to, const struct operand &o, const uint16_t *p, int first, int k0,
                                          unsigned live)
{
    constexpr int PIECES = (ALONG ? BK : ROWS) / 8; /* of a row */
    int left = o.rows - first;                      /* rows */
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * BK / 8; i += THREADS) {
        int row = i / PIECES, col = i % PIECES * 8;
        bool take = ALONG ? row < left && live >> col & 1u : live >> row & 1u && col < left;
        const uint16_t *from = p + (size_t)((ALONG ? first : k0) + row) * o.ld + (ALONG ? k0 : first) + col;
        mf_copy4(to + row * LD + col / 2, reinterpret_cast<const float *>(from), take);
    }
}

/* Of product z of a batch. */
template <bool BF16, bool ALONG, int ROWS, int LD, int THREADS>
__device__ __forceinline__ void load_of(float *to, const struct operand &o, int z, int first, int k0, unsigned live)
{
    if constexpr (BF16)
        load_bf16<ALONG, ROWS, LD, THREADS>(to, o, reinterpret_cast<const uint16_t *>(o.p) + z * o.next, first, k0,
                                            live);
    else
        load<ALONG, ROWS, LD, THREADS>(to, o, o.p + z * o.next, first, k0, live);
}

/* ---- a step of k ---- */

/* Word t of a row of an operand: one TF32, or two bf16. */
template <enum mf_precision P, bool BF16, bool ALONG, int LD>
__device__ __forceinline__ unsigned word(const float *s, int row, int t)
{
    if constexpr (BF16 && ALONG)
        return reinterpret_cast<const unsigned *>(s)[row * LD + t];
    else if constexpr (BF16) {
        const uint16_t *h = reinterpret_cast<const uint16_t *>(s + 2 * t * LD) + row;
        return h[0] | (unsigned)h[2 * LD] << 16;
    } else if constexpr (P == MF_TF32)
        return mf_tf32(ALONG ? s[row * LD + t] : s[t * LD + row]);
    else if constexpr (ALONG) {
        mf_pack<2> v = *reinterpret_cast<const mf_pack<2> *>(s + row * LD + 2 * t);
        return mf_bf16(v.of[0], v.of[1]);
    } else
        return mf_bf16(s[2 * t * LD + row], s[(2 * t + 1) * LD + row]);
}

template <enum mf_precision P, bool A_K, bool B_K, int TILE, enum stored AS>
__device__ __forceinline__ void multiply(const float *a, const float *b,
                                         float (&c)[shape<TILE>::TM][shape<TILE>::TN][4])
{
    using L = plan<P, A_K, B_K, TILE, AS>;
    constexpr int STEP = P == MF_BF16 ? 16 : 8;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    int m = warp / L::WN * L::TM * 16 + g, n = warp % L::WN * L::TN * 8 + g;
#pragma unroll
    for (int k = 0; k < BK; k += STEP) {
        const float *ak = a + (!A_K ? k * L::LDA : AS == A_BF16 ? k / 2 : k);
        const float *bk = b + (!B_K ? k * L::LDB : AS == B_BF16 ? k / 2 : k);
        unsigned u[L::TM][4], v[L::TN][2];
#pragma unroll
        for (int i = 0; i < L::TM; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                u[i][j] = word<P, AS == A_BF16, A_K, L::LDA>(ak, m + i * 16 + j % 2 * 8, t + j / 2 * 4);
#pragma unroll
        for (int i = 0; i < L::TN; i++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                v[i][j] = word<P, AS == B_BF16, B_K, L::LDB>(bk, n + i * 8, t + j * 4);
#pragma unroll
        for (int i = 0; i < L::TM; i++)
#pragma unroll
            for (int j = 0; j < L::TN; j++)
                if constexpr (P == MF_TF32)
                    mf_mma(c[i][j], u[i], v[j]);
                else
                    mf_mma_bf16(c[i][j], u[i], v[j]);
    }
}

/* fp32: row or column i of thread t, of T threads. Where k runs along rows, threads read neighbouring rows, else
 * neighbouring vectors of them. */
template <bool ALONG, int T, int COUNT> __device__ __forceinline__ int place(int t, int i)
{
    constexpr int V = COUNT < 4 ? COUNT : 4;
    return ALONG ? t + i * T : t * V + i % V + i / V * (T * V);
}

/* Rows or columns [first, first + SOME) of the COUNT of thread t, of each four numbers of k. */
template <bool ALONG, int LD, int T, int COUNT, int SOME>
__device__ __forceinline__ void take(float (&v)[SOME][4], const float *s, int t, int first, int k)
{
    constexpr int V = ALONG || SOME > 4 ? 4 : SOME, ROWS = ALONG ? SOME : SOME / V;
#pragma unroll
    for (int p = 0; p < SOME * 4 / V; p++) {
        int i = ALONG ? p : p % ROWS * V, e = ALONG ? 0 : p / ROWS, at = place<ALONG, T, COUNT>(t, first + i);
        mf_pack<V> x = *reinterpret_cast<const mf_pack<V> *>(s + (ALONG ? at * LD + k : (k + e) * LD + at));
#pragma unroll
        for (int n = 0; n < V; n++)
            v[ALONG ? i : i + n][ALONG ? n : e] = x.of[n];
    }
}

template <bool A_K, bool B_K, int TILE, int R, int C>
__device__ __forceinline__ void multiply_fp32(const float *a, const float *b, float (&c)[R][C])
{
    using L = plan<MF_FP32, A_K, B_K, TILE>;
    constexpr int SOME = C < 4 ? C : 4; /* columns at once: registers */
    int x = threadIdx.x % L::TX, y = threadIdx.x / L::TX;
#pragma unroll 1
    for (int k = 0; k < BK; k += 4) {
        float u[R][4], v[SOME][4];
        take<A_K, L::LDA, L::TY, R>(u, a, y, 0, k);
#pragma unroll
        for (int j = 0; j < C; j += SOME) {
            take<B_K, L::LDB, L::TX, C>(v, b, x, j, k);
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int i = 0; i < R; i++)
#pragma unroll
                    for (int n = 0; n < SOME; n++)
                        c[i][j + n] = fmaf(u[i][e], v[n][e], c[i][j + n]);
        }
    }
}

/* ---- the epilogue ---- */

typedef mf_pack<4> four;

/* The first n of 4 numbers, all at once where that is possible. */
__device__ __forceinline__ four get(const float *p, int n, bool wide)
{
    if (wide)
        return *reinterpret_cast<const four *>(p);
    four v;
#pragma unroll
    for (int e = 0; e < 4; e++)
        v.of[e] = e < n ? p[e] : 0.0f;
    return v;
}

__device__ __forceinline__ void put(float *p, const four &v, int n, bool wide)
{
    if (wide)
        *reinterpret_cast<four *>(p) = v;
    else
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (e < n)
                p[e] = v.of[e];
}

__device__ __forceinline__ void add(four &v, const four &x)
{
#pragma unroll
    for (int e = 0; e < 4; e++)
        v.of[e] += x.of[e];
}

/* A part of C, from `at` on, goes onward. */
template <enum mf_precision P>
__device__ __forceinline__ void pass_on(const struct mf_onward &on, four v, size_t at, int n, bool wide)
{
    if (on.act != MF_ACT_NONE) {
        four kept = P == MF_BF16 && on.kept_bf16 ? mf_get_bf16<4>(on.kept, at) : get(on.kept + at, n, wide);
#pragma unroll
        for (int e = 0; e < 4; e++)
            v.of[e] = mf_act_back(on.act, v.of[e], kept.of[e], kept.of[e]);
    }
#pragma unroll
    for (int i = 0; i < MF_ONWARD; i++)
        if (i < on.n) {
            four d = v;
            if (on.to[i].add)
                add(d, get(on.to[i].grad + at, n, wide));
            put(on.to[i].grad + at, d, n, wide);
        }
}

/* The tile (BM, BN) at (m0, n0) from shared memory to C, of a forward product where ONWARD. */
template <enum mf_precision P, bool ONWARD, int BM, int BN, int LDC, int THREADS>
__device__ __forceinline__ void finish(const struct job &j, const float *tile, int m0, int n0, int z)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < BM * BN / 4; i += THREADS) {
        int row = m0 + i / (BN / 4), at = i % (BN / 4) * 4, col = n0 + at, n = j.N - col;
        if (row >= j.A.rows || n <= 0)
            continue;
        float *to = j.C + z * j.next_C + (size_t)row * j.ldc + col;
        four v = get(tile + i / (BN / 4) * LDC + at, 4, true), slope;
        if (j.b)
            add(v, get(j.b + col, n, j.wide));
        for (int r = 0; r < j.n_r; r++) {
            int of = j.r[r].same ? row : mf_spread_row(j.r[r].rows, row);
            add(v, get(j.r[r].p + (size_t)of * j.N + col, n, j.wide));
        }
        if (j.add)
            add(v, get(to, n, j.wide));
        if (ONWARD && j.on.n) {
            pass_on<P>(j.on, v, (size_t)row * j.N + col, n, j.wide);
            continue;
        }
        if (j.before)
            put(j.before + (size_t)row * j.N + col, v, n, j.wide);
        if (j.act != MF_ACT_NONE) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                v.of[e] = mf_act_of(j.act, v.of[e], &slope.of[e]);
            if (j.slope)
                put(j.slope + (size_t)row * j.N + col, slope, n, j.wide);
        }
        if (P == MF_BF16 && ONWARD && j.C_bf16)
            mf_put_bf16<4>(j.C, (size_t)row * j.ldc + col, v);
        else
            put(to, v, n, j.wide);
    }
}

/* ---- a tile ---- */

/* The tile at (m0, n0) of product z of a batch, by the threads of a block. */
template <enum mf_precision P, bool A_K, bool B_K, int TILE, enum stored AS = FP32>
__device__ __forceinline__ void compute(const struct job &j, int m0, int n0, int z)
{
    using L = plan<P, A_K, B_K, TILE, AS>;
    float *smem = mf_shared<float>();
    int lane = threadIdx.x % 32;
    const unsigned char *live = j.live ? j.live + z * (size_t)j.K : nullptr;
    int steps = (j.K + BK - 1) / BK;
    bool mine = n0 == 0 && (int)threadIdx.x < L::BM, sums = !A_K && j.sums && mine;
    bool finds = A_K && AS != A_BF16 && j.found && mine;
    float sum = 0.0f;   /* of this thread's column of A */
    bool found = false; /* a number of its row that is not 0 */

    /* The flag of this lane's k is read a step before all need it. */
    auto flag = [&](int step) {
        int k = step * BK + lane;
        return k < j.K && (!live || live[k]);
    };
    bool next = flag(0);
    auto fetch = [&](int step) {
        unsigned mask = __ballot_sync(~0u, next);
        next = flag(step + 1);
        if (step < steps) {
            float *to = smem + step % L::STAGES * L::STAGE;
            load_of<AS == A_BF16, A_K, L::BM, L::LDA, L::THREADS>(to, j.A, z, m0, step * BK, mask);
            load_of<AS == B_BF16, B_K, L::BN, L::LDB, L::THREADS>(to + L::A_FLOATS, j.B, z, n0, step * BK, mask);
        }
        mf_copy_group();
    };
    auto loop = [&](auto &&multiply) {
        for (int s = 0; s < L::STAGES - 1; s++)
            fetch(s);
        for (int s = 0; s < steps; s++) {
            mf_copy_wait<L::STAGES - 2>();
            __syncthreads(); /* all copies of step s are there, and step s - 1 is no longer read */
            fetch(s + L::STAGES - 1);
            const float *at = smem + s % L::STAGES * L::STAGE;
            multiply(at, at + L::A_FLOATS);
            if (sums)
#pragma unroll 8
                for (int k = 0; k < BK; k++)
                    sum += at[k * L::LDA + (int)threadIdx.x];
            if (finds)
#pragma unroll
                for (int k = 0; k < BK; k += 4) {
                    four v = *reinterpret_cast<const four *>(at + (int)threadIdx.x * L::LDA + k);
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        found = found || v.of[e] != 0.0f;
                }
        }
        mf_copy_wait<0>();
        __syncthreads();
    };

    if constexpr (P == MF_FP32) {
        float c[L::R][L::C] = {};
        loop([&](const float *a, const float *b) { multiply_fp32<A_K, B_K, TILE, L::R, L::C>(a, b, c); });
        int x = threadIdx.x % L::TX, y = threadIdx.x / L::TX;
#pragma unroll
        for (int r = 0; r < L::R; r++)
#pragma unroll
            for (int i = 0; i < L::C; i++)
                smem[place<A_K, L::TY, L::R>(y, r) * L::LDC + place<B_K, L::TX, L::C>(x, i)] = c[r][i];
    } else {
        float c[L::TM][L::TN][4] = {};
        loop([&](const float *a, const float *b) { multiply<P, A_K, B_K, TILE, AS>(a, b, c); });
        int warp = threadIdx.x / 32, m = warp / L::WN * L::TM * 16 + lane / 4;
        int n = warp % L::WN * L::TN * 8 + lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < L::TM; r++)
#pragma unroll
            for (int i = 0; i < L::TN; i++)
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    float *to = smem + (m + r * 16 + e / 2 * 8) * L::LDC + n + i * 8;
                    *reinterpret_cast<mf_pack<2> *>(to) = {c[r][i][e], c[r][i][e + 1]};
                }
    }
    __syncthreads();
    if (sums && m0 + (int)threadIdx.x < j.A.rows)
        j.sums[z * j.next_sums + m0 + threadIdx.x] += sum;
    if (finds && m0 + (int)threadIdx.x < j.A.rows)
        j.found[m0 + threadIdx.x] = found;
    finish<P, A_K, L::BM, L::BN, L::LDC, L::THREADS>(j, smem, m0, n0, z);
}

} // namespace gemm

#endif
