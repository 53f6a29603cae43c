/* emulator.h - for the emulator's own tests: cases that work (emulator.cu) and faults that it has to find (faults.cu).
 */
#pragma once
#include <cuda_runtime.h>
#include <gpu.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "../unit/tap.h"

/* Runs this program with an argument, after settings of the environment; *output: what it prints. Returns its status.
 */
inline int run_self(const std::string &settings, const char *argument, std::string *output)
{
    char self[4096] = {}, part[4096];
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return -1;
    fflush(stdout);
    FILE *f = popen(("env CUEMU_DEVICES=2 CUEMU_MEMORY=1000000000 ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS " +
                     settings + " '" + self + "' " + argument + " 2>&1")
                        .c_str(),
                    "r");
    output->clear();
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        output->append(part, n);
    return f ? pclose(f) : -1;
}

/* A call of the runtime that may not fail. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        cudaError_t rc_ = (call);                                                                                      \
        if (rc_ != cudaSuccess) {                                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(rc_));                    \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

template <class... P, class... A>
void go(cudaStream_t stream, dim3 grid, dim3 block, size_t smem, void (*f)(P...), A... args)
{
    cudaLaunchConfig_t how = {};
    how.gridDim = grid, how.blockDim = block, how.dynamicSmemBytes = smem, how.stream = stream;
    OK(cudaLaunchKernelEx(&how, f, args...));
}
template <class... P, class... A>
void go_clusters(unsigned cluster, unsigned blocks, unsigned threads, void (*f)(P...), A... args)
{
    cudaLaunchAttribute of;
    of.id = cudaLaunchAttributeClusterDimension;
    of.val.clusterDim.x = cluster, of.val.clusterDim.y = of.val.clusterDim.z = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(blocks), how.blockDim = dim3(threads), how.attrs = &of, how.numAttrs = 1;
    OK(cudaLaunchKernelEx(&how, f, args...));
}

template <class T> T *device_memory(size_t n)
{
    T *p;
    OK(cudaMalloc(&p, n * sizeof(T)));
    return p;
}
template <class T> T *pinned_memory(size_t n)
{
    T *p;
    OK(cudaMallocHost(&p, n * sizeof(T)));
    return p;
}
inline cudaStream_t new_stream()
{
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
inline cudaEvent_t new_event(unsigned flags = cudaEventDisableTiming)
{
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, flags));
    return e;
}
template <class T> std::vector<T> fetched(const T *p, size_t n)
{
    std::vector<T> v(n);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

/* The kernels that both use; a template's argument plants a fault. */

enum fault { NONE, EARLY, LATE, GONE, SHORT };

/* y[block] = the sum over rounds r of the sum of i + r over the threads i: by warps, then by their sums, which share
 * their place between rounds. */
template <fault F> __global__ void block_sums(float *y, int rounds)
{
    float *sums = mf_shared<float>();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float total = 0.0f;
    if (F == GONE && threadIdx.x + 1 == blockDim.x)
        return;
    for (int r = 0; r < rounds; r++) {
        float x = (float)threadIdx.x + (float)r;
        for (int by = 16; by; by /= 2)
            if (F != SHORT || lane < 31)
                x += __shfl_xor_sync(~0u, x, by);
        if (lane == 0)
            sums[warp] = x;
        if (F != EARLY)
            __syncthreads(); /* else sums are read before they are there */
        for (int i = 0; i < warps; i++)
            total += sums[i];
        if (F != LATE)
            __syncthreads(); /* else the next round overwrites them while others read */
    }
    if (threadIdx.x == blockDim.x / 2)
        y[blockIdx.x] = total;
}

/* Hands x[i] around by shared memory: y[i] = x of the lane `by` further on in the warp. */
template <fault F> __global__ void pass_on(const float *x, float *y, int by)
{
    float *at = mf_shared<float>();
    unsigned i = threadIdx.x;
    at[i] = x[i];
    if (F != EARLY)
        __syncwarp();
    y[i] = at[i / 32 * 32 + (i + (unsigned)by) % 32];
}

/* Each block of a cluster writes its row, then adds up all rows, in order. */
template <fault F> __global__ void cluster_sums(float *rows, float *y)
{
    unsigned n = blockDim.x, me = threadIdx.x;
    rows[(size_t)blockIdx.x * n + me] = (float)(blockIdx.x + me);
    if (F == GONE && blockIdx.x == 1)
        return;
    if (F != EARLY)
        cuemu::wait(cuemu::CLUSTER); /* barrier.cluster of PTX */
    float sum = 0.0f;
    for (unsigned i = 0; i < gridDim.x; i++)
        sum += rows[(size_t)i * n + me];
    y[(size_t)blockIdx.x * n + me] = sum;
}

/* y = a x, one number a thread; from: the first thread that does it. */
inline __global__ void scale(size_t n, float a, const float *x, float *y, size_t from)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= from && i < n)
        y[i] = a * x[i];
}
inline __global__ void fill(size_t n, float a, float *y)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a;
}
