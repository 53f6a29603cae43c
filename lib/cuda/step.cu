/* step.cu - sums over lanes, norms, veto, AdamW and the average: every sum in double, in an order by shapes alone. */
#include <stdlib.h>

#include <algorithm>

#include "cuda/launch.h"
#include "cuda/step.h"

extern "C" {
#include "dev/adamw.h"
}

enum {
    SLICE = 4096, /* floats of a block: enough blocks for all multiprocessors where parameters are few */
    JUDGES = 1024,
};

/* Part of one trained parameter, by groups. A parameter begins a cache line, and the gap
 * after it stays 0: so a slice is updated by fours. */
struct step_slice {
    size_t at;
    int n, group;
};

struct ranges { /* of slices, by group */
    int first[MF_DEVICE_GROUPS + 1];
};

struct decision { /* the device's */
    struct mf_adamw by[MF_DEVICE_GROUPS];
    bool stepped, vetoed; /* vetoed: stays until the next update */
};

struct mf_steps {
    int n;
    struct ranges trained;
    float *weights;
    /* The device's. */
    struct step_slice *slice; /* (n) */
    double *square;           /* (n) */
    struct decision *decision;
};

mf_rows mf_rows_of(int first, int end)
{
    mf_rows rows = 0;
    for (int l = first, n; l < end; l += n) {
        for (n = 1; l % (2 * n) == 0 && l + 2 * n <= end;)
            n *= 2;
        rows |= (mf_rows)1 << l;
    }
    return rows;
}

int mf_rows_lanes(mf_rows rows, int l, int n)
{
    int next = l + 1;
    while (next < n && !(rows >> next & 1))
        next++;
    return next - l;
}

int mf_rows_before(mf_rows rows, int l)
{
    int n = 0;
    for (int i = 0; i < l; i++)
        n += (int)(rows >> i & 1);
    return n;
}

/* A subtree of at most N lanes. Which rows it is made of is the same for all threads. */
template <int N> static __device__ __forceinline__ float4 sum_tree(const float4 *lanes, size_t stride, mf_rows rows)
{
    if (rows == 1)
        return *lanes;
    mf_rows right = rows >> N / 2;
    float4 x = sum_tree<N / 2>(lanes, stride, rows & (((mf_rows)1 << N / 2) - 1));
    if (right) {
        float4 y = sum_tree<N / 2>(lanes + N / 2 * stride, stride, right);
        x.x += y.x, x.y += y.y, x.z += y.z, x.w += y.w;
    }
    return x;
}

template <> __device__ __forceinline__ float4 sum_tree<1>(const float4 *lanes, size_t, mf_rows)
{
    return *lanes;
}

template <int N>
static cudaError_t sum_lanes(float *sum, const float *lanes, size_t stride, mf_rows rows, size_t floats,
                             cudaStream_t stream)
{
    float4 *to = (float4 *)sum;
    const float4 *from = (const float4 *)lanes;
    return mf_each(stream, (floats + 3) / 4,
                   [=] __device__(size_t i) { to[i] = sum_tree<N>(from + i, stride / 4, rows); });
}

cudaError_t mf_lanes_sum(float *to, const float *lanes, size_t stride, mf_rows rows, size_t floats, cudaStream_t stream)
{
    return rows >> 8 ? sum_lanes<MF_LANES_MAX>(to, lanes, stride, rows, floats, stream)
                     : sum_lanes<8>(to, lanes, stride, rows, floats, stream);
}

/* The sum over a block of whole warps, by a tree; every thread gets it. */
static __device__ double sum_block(double x)
{
    double *warps = mf_shared<double>(); /* (32) */
    for (int by = 16; by > 0; by /= 2)
        x += __shfl_xor_sync(~0u, x, by);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : 0;
    for (int by = 16; by > 0; by /= 2)
        x += __shfl_xor_sync(~0u, x, by);
    __syncthreads(); /* before the next sum */
    return x;
}

static __global__ void __launch_bounds__(MF_BLOCK)
    square_kernel(const struct step_slice *slices, const float *grads, double *square)
{
    const struct step_slice s = slices[blockIdx.x];
    double sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < s.n; i += MF_BLOCK)
        sum += (double)grads[s.at + i] * (double)grads[s.at + i];
    sum = sum_block(sum);
    if (threadIdx.x == 0)
        square[blockIdx.x] = sum;
}

/* One block. Thread g decides on group g. */
static __global__ void __launch_bounds__(JUDGES)
    verdict_kernel(struct ranges trained, const double *square, const float *veto, const struct mf_step_in *in,
                   struct mf_verdict *verdict, struct decision *d)
{
    const struct mf_step *step = &in->step;
    int t = threadIdx.x;
    double mine = 0, total = 0, sum = 0;
#pragma unroll
    for (int g = 0; g < MF_DEVICE_GROUPS; g++) {
        double x = 0;
        for (int i = trained.first[g] + t; i < trained.first[g + 1]; i += JUDGES)
            x += square[i];
        x = sum_block(x);
        mine = t == g ? x : mine;
        total += x;
    }
    for (size_t i = t; step->veto.id && i < in->n; i += JUDGES)
        sum += (double)veto[i];
    sum = sum_block(sum);
    bool vetoed = (d->vetoed && !step->first) || (step->veto.id && sum > step->most);
    __syncthreads(); /* all have read d->vetoed */
    if (t >= MF_DEVICE_GROUPS)
        return;
    double norm = sqrt(mine);
    total = sqrt(total);
    bool finite = isfinite(total), stepped = finite && !vetoed;
    verdict->norm[t] = norm;
    if (stepped && step->lr[t] > 0)
        d->by[t] = mf_adamw_of(step, t, ++step->of.step[t], mf_clip_scale(step, norm, total));
    if (t)
        return;
    verdict->total = total;
    verdict->veto = sum;
    verdict->finite = finite;
    verdict->vetoed = d->vetoed = vetoed;
    verdict->stepped = d->stepped = stepped;
}

static __global__ void __launch_bounds__(MF_BLOCK)
    update_kernel(const struct step_slice *slices, const struct mf_step_in *in, const struct decision *d,
                  const float *grads, float *weights)
{
    const struct step_slice s = slices[blockIdx.x];
    const struct mf_step *step = &in->step;
    bool moves = step->lr[s.group] > 0, averages = step->of.ema && (step->averaged >> s.group & 1);
    if (!d->stepped || (!moves && !averages))
        return;
    const struct mf_adamw a = d->by[s.group];
    const float4 *g4 = (const float4 *)(grads + s.at);
    float4 *w4 = (float4 *)(weights + s.at), *m4 = (float4 *)(step->of.m + s.at), *v4 = (float4 *)(step->of.v + s.at);
    float4 *ema4 = averages ? (float4 *)(step->of.ema + s.at) : nullptr;
    for (int i = threadIdx.x; i < (s.n + 3) / 4; i += MF_BLOCK) {
        float4 w = w4[i], average = averages ? ema4[i] : w;
        if (moves) {
            float4 g = g4[i], m = m4[i], v = v4[i];
            mf_adamw(&a, g.x, &w.x, &m.x, &v.x);
            mf_adamw(&a, g.y, &w.y, &m.y, &v.y);
            mf_adamw(&a, g.z, &w.z, &m.z, &v.z);
            mf_adamw(&a, g.w, &w.w, &m.w, &v.w);
            w4[i] = w, m4[i] = m, v4[i] = v;
        }
        if (averages)
            ema4[i] = make_float4(mf_average(step, average.x, w.x), mf_average(step, average.y, w.y),
                                  mf_average(step, average.z, w.z), mf_average(step, average.w, w.w));
    }
}

/* The slices of a group's trained pieces: into `to`, or only counted where that is NULL. */
static int cut(const struct mf_listing *l, int group, struct step_slice *to)
{
    int n = 0;
    for (int i = 0; i < l->n_pieces; i++) {
        const struct mf_piece *p = &l->piece[i];
        for (size_t at = 0; p->trained && p->group == group && at < p->floats; at += SLICE, n++)
            if (to)
                to[n] = {p->at + at, (int)std::min(p->floats - at, (size_t)SLICE), group};
    }
    return n;
}

static cudaError_t upload(struct mf_steps *s, const struct mf_listing *l, cudaStream_t stream)
{
    size_t room = (size_t)s->n * sizeof *s->slice;
    cudaError_t rc = cudaMalloc((void **)&s->slice, room);
    rc = MF_THEN(rc, cudaMalloc((void **)&s->square, (size_t)s->n * sizeof *s->square));
    rc = MF_THEN(rc, cudaMalloc((void **)&s->decision, sizeof *s->decision));
    if (rc != cudaSuccess)
        return rc;
    struct step_slice *host = (struct step_slice *)malloc(room + 1), *at = host;
    if (!host)
        return cudaErrorMemoryAllocation;
    for (int g = 0; g < MF_DEVICE_GROUPS; g++)
        at += cut(l, g, at);
    rc = cudaMemsetAsync(s->decision, 0, sizeof *s->decision, stream);
    rc = MF_THEN(rc, cudaMemcpyAsync(s->slice, host, room, cudaMemcpyHostToDevice, stream));
    rc = MF_THEN(rc, cudaStreamSynchronize(stream));
    free(host);
    return rc;
}

cudaError_t mf_steps_new(struct mf_steps **out, const struct mf_listing *l, float *weights, cudaStream_t stream)
{
    struct mf_steps *s = *out = (struct mf_steps *)calloc(1, sizeof *s);
    if (!s)
        return cudaErrorMemoryAllocation;
    s->weights = weights;
    for (int g = 0; g < MF_DEVICE_GROUPS; g++)
        s->trained.first[g + 1] = s->trained.first[g] + cut(l, g, NULL);
    s->n = s->trained.first[MF_DEVICE_GROUPS];
    cudaError_t rc = upload(s, l, stream);
    if (rc != cudaSuccess) {
        mf_steps_free(s);
        *out = NULL;
    }
    return rc;
}

void mf_steps_free(struct mf_steps *s)
{
    if (!s)
        return;
    cudaFree(s->slice);
    cudaFree(s->square);
    cudaFree(s->decision);
    free(s);
}

cudaError_t mf_steps_step(const struct mf_steps *s, const struct mf_step_in *in, struct mf_verdict *verdict,
                          const float *grads, const float *veto, cudaStream_t stream)
{
    size_t room = 32 * sizeof(double); /* of sum_block */
    cudaError_t rc = cudaSuccess;
    if (s->n > 0)
        rc = mf_launch(stream, dim3(s->n), dim3(MF_BLOCK), room, square_kernel, s->slice, grads, s->square);
    rc = MF_THEN(rc, mf_launch(stream, dim3(1), dim3(JUDGES), room, verdict_kernel, s->trained, s->square, veto, in,
                               verdict, s->decision));
    if (s->n > 0)
        rc = MF_THEN(rc, mf_launch(stream, dim3(s->n), dim3(MF_BLOCK), 0, update_kernel, s->slice, in, s->decision,
                                   grads, s->weights));
    return rc;
}
