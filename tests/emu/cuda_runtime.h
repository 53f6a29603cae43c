/* cuda_runtime.h - a CUDA device for tests, on the CPU: found before the toolkit's own header, so that a .cu file is
 * compiled by g++ as it is. A thread of a block is a fiber; it runs until it meets a barrier or a shuffle. Blocks run
 * one after the other. What a device would leave undefined is an error here: a shuffle whose mask names a lane that
 * does not come, a barrier that not all threads meet, shared memory beyond what was asked for. CUEMU_ORDER=1 runs
 * threads and blocks backwards, 2.. shuffles them by that seed: results may not change. */
#pragma once
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__    static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
using std::max, std::min;

enum { CUEMU_SMEM = 232448, CUEMU_STACK = 64 << 10, CUEMU_THREADS = 1024, CUEMU_CLUSTER = 16, CUEMU_REDZONE = 1024 };
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuemu
{
enum state { READY, BARRIER, WARP, CLUSTER, DONE };
struct fiber {
    jmp_buf at;
    state is;
    bool begun;
    dim3 thread, block;
    int rank;                /* of its block in the cluster */
    unsigned lane_ops, mask; /* shuffles so far; whom this one waits for */
    char *stack;
};
enum { BOX = 32 }; /* bytes that a lane can hand over at once */
struct warp_box {
    unsigned char of[2][32][BOX];
};
inline fiber fibers[CUEMU_THREADS * CUEMU_CLUSTER];
inline warp_box boxes[CUEMU_THREADS * CUEMU_CLUSTER / 32];
inline unsigned char *shared[CUEMU_CLUSTER]; /* by block of the cluster */
inline fiber *now;
inline jmp_buf scheduler;
inline ucontext_t start, back;
inline std::function<void()> body;

[[noreturn]] inline void die(const char *why)
{
    fprintf(stderr, "cuemu: block (%u,%u,%u) thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, why);
    abort();
}
inline void wait(state s)
{
    now->is = s;
    if (!_setjmp(now->at))
        _longjmp(scheduler, 1);
}
inline void run()
{
    for (;; wait(DONE)) /* a fiber that has ended is the same thread of the next block */
        body();
}
inline void resume(fiber *f)
{
    now = f, threadIdx = f->thread, blockIdx = f->block;
    if (_setjmp(scheduler))
        return;
    if (f->begun)
        _longjmp(f->at, 1);
    f->begun = true;
    getcontext(&start);
    start.uc_stack.ss_sp = f->stack;
    start.uc_stack.ss_size = CUEMU_STACK;
    start.uc_link = nullptr;
    makecontext(&start, run, 0);
    setcontext(&start);
}
/* Lanes of a warp go on together where all that a shuffle's mask names have come. */
inline bool release_warp(fiber *w)
{
    unsigned come = 0, mask = 0;
    for (int i = 0; i < 32; i++)
        if (w[i].is == WARP)
            come |= 1u << i, mask |= w[i].mask;
    if (!come || (mask & ~come))
        return false;
    for (int i = 0; i < 32; i++)
        if (w[i].is == WARP)
            w[i].is = READY;
    return true;
}
inline std::vector<int> order_of(int n)
{
    const char *how = getenv("CUEMU_ORDER");
    unsigned seed = how ? atoi(how) : 0;
    std::vector<int> o(n);
    for (int i = 0; i < n; i++)
        o[i] = seed == 1 ? n - 1 - i : i;
    for (int i = n - 1; seed > 1 && i > 0; i--)
        seed = seed * 1664525u + 1013904223u, std::swap(o[i], o[(seed >> 8) % (i + 1)]);
    return o;
}
/* Each warp goes on alone until all of it waits at a barrier, so that whoever needed one meets another's haste.
 * Returns how many threads wait for the cluster or have ended; *done: of those, the latter. */
inline int run_block(fiber *f, int threads, int *done)
{
    static const std::vector<int> lanes = order_of(32);
    for (;;) {
        int at[DONE + 1] = {};
        for (int w : order_of(threads / 32))
            do
                for (int l : lanes)
                    if (f[w * 32 + l].is == READY)
                        resume(&f[w * 32 + l]);
            while (release_warp(f + w * 32));
        for (int i = 0; i < threads; i++)
            at[f[i].is]++;
        if (at[WARP])
            die("a shuffle's mask names a lane that does not come");
        if (at[BARRIER] && at[BARRIER] != threads)
            die("a barrier that some threads never meet");
        *done = at[DONE];
        if (!at[BARRIER])
            return at[CLUSTER] + at[DONE];
        for (int i = 0; i < threads; i++)
            f[i].is = READY;
    }
}
/* The blocks of a cluster, which may wait for each other. */
inline void run_cluster(int first, int blocks, int threads, size_t smem)
{
    for (int b = 0, i = 0; b < blocks; b++) {
        unsigned char *&mine = shared[b];
        mine = mine ? mine : static_cast<unsigned char *>(aligned_alloc(16, CUEMU_SMEM + CUEMU_REDZONE));
        memset(mine, 0xff, smem + CUEMU_REDZONE); /* NaN */
        for (int t = 0; t < threads; t++, i++) {
            if (!fibers[i].stack)
                fibers[i].stack = static_cast<char *>(malloc(CUEMU_STACK));
            fibers[i].is = READY, fibers[i].lane_ops = 0, fibers[i].rank = b;
            fibers[i].thread = dim3(t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y));
            fibers[i].block = dim3((first + b) % gridDim.x, (first + b) / gridDim.x % gridDim.y,
                                   (first + b) / (gridDim.x * gridDim.y));
        }
    }
    for (int done = 0, all = blocks * threads; done < all;) {
        done = 0;
        for (int b : order_of(blocks)) {
            int ended;
            if (run_block(fibers + b * threads, threads, &ended) != threads)
                die("a cluster's barrier that some threads never meet");
            done += ended;
        }
        if (done && done != all)
            die("a cluster's barrier that some threads never meet");
        for (int i = 0; !done && i < all; i++)
            fibers[i].is = READY;
    }
    for (int b = 0; b < blocks; b++)
        for (size_t i = smem; i < smem + CUEMU_REDZONE; i++)
            if (shared[b][i] != 0xff)
                die("wrote shared memory beyond what was asked for");
}
inline void launch(dim3 grid, dim3 dim, int cluster, size_t smem, std::function<void()> fn)
{
    body = std::move(fn), gridDim = grid, blockDim = dim;
    int threads = dim.x * dim.y * dim.z, blocks = grid.x * grid.y * grid.z;
    if (threads > CUEMU_THREADS || threads % 32 || smem > CUEMU_SMEM || cluster > CUEMU_CLUSTER || blocks % cluster)
        die("a launch that no device takes, or a block that is not whole warps");
    for (int c : order_of(blocks / cluster))
        run_cluster(c * cluster, cluster, threads, smem);
    now = nullptr;
}
/* What all lanes of the mask hand over, BOX bytes apart; good until the lane's next but one. */
inline const unsigned char *gather(unsigned mask, const void *x, size_t n)
{
    int me = static_cast<int>(now - fibers), turn = now->lane_ops++ & 1;
    memcpy(boxes[me / 32].of[turn][me % 32], x, n);
    now->mask = mask;
    wait(WARP);
    return boxes[me / 32].of[turn][0];
}
template <class T> T shuffle(unsigned mask, T x, int from)
{
    const unsigned char *all = gather(mask, &x, sizeof x);
    if (from >= 0 && from < 32 && (mask >> from & 1))
        memcpy(&x, all + from * BOX, sizeof x);
    return x;
}
inline int lane()
{
    return static_cast<int>(now - fibers) % 32;
}
} // namespace cuemu

inline void __syncthreads()
{
    cuemu::wait(cuemu::BARRIER);
}
inline void __syncwarp(unsigned mask = ~0u)
{
    cuemu::shuffle(mask, 0, -1);
}
template <class T> T __shfl_sync(unsigned m, T x, int from)
{
    return cuemu::shuffle(m, x, from);
}
template <class T> T __shfl_xor_sync(unsigned m, T x, int by)
{
    return cuemu::shuffle(m, x, cuemu::lane() ^ by);
}
template <class T> T __shfl_down_sync(unsigned m, T x, int by)
{
    return cuemu::shuffle(m, x, cuemu::lane() + by);
}
template <class T> T atomicAdd(T *p, T x)
{
    T was = *p;
    *p = was + x;
    return was;
} /* one thread at a time runs */

/* ---- what of the runtime is used: a stream does at once what it is given, or records it while it is captured ---- */

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
struct cuemu_graph {
    std::vector<std::function<void()>> node;
};
struct cuemu_stream {
    cuemu_graph *capturing = nullptr;
};
typedef cuemu_stream *cudaStream_t;
typedef cuemu_graph *cudaGraph_t, *cudaGraphExec_t;
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        struct {
            unsigned x, y, z;
        } clusterDim;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

inline void cuemu_do(cudaStream_t s, std::function<void()> fn)
{
    if (s && s->capturing)
        s->capturing->node.push_back(std::move(fn));
    else
        fn();
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(P...), A &&...args)
{
    cudaLaunchConfig_t how = *c;
    int cluster = c->numAttrs ? c->attrs[0].val.clusterDim.x : 1;
    std::tuple<P...> values(std::forward<A>(args)...); /* by value, at once, as a device takes them */
    cuemu_do(c->stream, [=] {
        cuemu::launch(how.gridDim, how.blockDim, cluster, how.dynamicSmemBytes, [=] { std::apply(kernel, values); });
    });
    return cudaSuccess;
}
inline cudaError_t cudaMalloc(void **p, size_t n)
{
    *p = aligned_alloc(256, (n + 255) / 256 * 256);
    memset(*p, 0xff, n);
    return cudaSuccess;
}
template <class T> cudaError_t cudaMalloc(T **p, size_t n)
{
    return cudaMalloc(reinterpret_cast<void **>(p), n);
}
inline cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind, cudaStream_t s)
{
    cuemu_do(s, [=] { memcpy(to, from, n); });
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *to, int v, size_t n, cudaStream_t s)
{
    cuemu_do(s, [=] { memset(to, v, n); });
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    *s = new cuemu_stream;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    s->capturing = new cuemu_graph;
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    *g = s->capturing;
    s->capturing = nullptr;
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long = 0)
{
    *e = new cuemu_graph(*g);
    return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t)
{
    for (auto &fn : e->node)
        fn();
    return cudaSuccess;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}
inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
inline const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : "out of memory";
}
