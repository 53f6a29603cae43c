/* cuda_runtime.h - an emulated CUDA device on the CPU, for tests on machines without a GPU. g++ and clang++ find this
 * header before the toolkit's own (-Itests/emu), and compile a .cu file unchanged, with -x c++.
 *
 * It runs kernels thread by thread, and implements the part of the language and of the runtime that maniflow uses. What
 * is undefined on a device is an error here: it prints one line and aborts. Such are a barrier or a shuffle that not
 * all reach that have to; shared or device memory outside of what was asked for, freed, or of another device; an
 * address that is not aligned to its type (with -fsanitize=alignment -fsanitize-undefined-trap-on-error); launches
 * beyond the limits; a copy in the wrong direction; a host that frees what a copy still reads; calls that a capture
 * forbids. Memory that nobody has written holds NaN.
 *
 * Environment:
 *   CUEMU_DEVICES=1   their number. 0: the driver finds none; -1: there is no driver
 *   CUEMU_MEMORY=17179869184  bytes of a device
 *   CUEMU_ORDER=0     of lanes, warps and blocks. 1: backwards; 2 and more: shuffled by this seed. No result may change
 *   CUEMU_LATE=0      1: a stream does nothing until the host waits for it; 2: and then after all other streams
 *   CUEMU_GUARD=0     1: code of the host that touches the memory of a device is an error, and so is a kernel that is
 *                     given an address of the host; what lies around allocations is checked after every kernel
 *   CUEMU_LEAKS=0     1: what was not freed at the end of the program is an error
 *   CUEMU_BREAKS=0    n: the launch of a graph number n fails
 *
 * It says nothing of: the order in which writes of running threads become visible to others that no barrier separates
 * from them (a missing fence, a race between blocks); bank conflicts, coalescing, registers, speed; the rounding inside
 * tensor cores and of approximate functions (rsqrtf); addresses inside a struct that is an argument; variables that are
 * __shared__, textures, managed memory, launches by <<<>>> and whatever else is not here, which does not compile. */
#pragma once
#include <cmath>
#include <type_traits>

#include "cuemu_fibers.h"
#include "cuemu_memory.h"
#include "cuemu_stream.h"

/* ---- the language ---- */

#define __global__
#define __device__
#define __host__
#define __constant__    static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
inline int2 make_int2(int x, int y)
{
    return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
inline double2 make_double2(double x, double y)
{
    return {x, y};
}

/* Of a NaN and a number, CUDA's min and max take the number, as fminf does, and std::min does not. */
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax((T)a, (T)b);
    else
        return (T)a < (T)b ? (T)b : (T)a;
}
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin((T)a, (T)b);
    else
        return (T)b < (T)a ? (T)b : (T)a;
}
inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
template <class T> T __ldg(const T *p)
{
    return *p;
}

inline void __syncthreads()
{
    cuemu::wait(cuemu::BARRIER);
}
inline int __syncthreads_count(int holds)
{
    return cuemu::count(holds, 1);
}
inline int __syncthreads_or(int holds)
{
    return cuemu::count(holds, 2) > 0;
}
inline int __syncthreads_and(int holds)
{
    return cuemu::count(holds, 3) == cuemu::grid.threads;
}
inline void __syncwarp(unsigned mask = ~0u)
{
    cuemu::gather(mask, "", 1, cuemu::SYNC);
}
inline unsigned __ballot_sync(unsigned mask, int holds)
{
    unsigned char mine = holds != 0;
    const unsigned char *of = cuemu::gather(mask, &mine, 1, cuemu::VOTE);
    unsigned bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= (mask >> i & 1) && of[i * cuemu::BOX] ? 1u << i : 0;
    return bits;
}
inline int __any_sync(unsigned mask, int holds)
{
    return __ballot_sync(mask, holds) != 0;
}
inline int __all_sync(unsigned mask, int holds)
{
    return __ballot_sync(mask, holds) == mask;
}
/* width: lanes of a segment, within which they shuffle. */
template <class T> T __shfl_sync(unsigned mask, T x, int from, int width = 32)
{
    int first = cuemu::lane() & -width;
    return cuemu::shuffle(mask, x, first + (from & (width - 1)), 100);
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, int by, int width = 32)
{
    int from = cuemu::lane() ^ by;
    return cuemu::shuffle(mask, x, from < (cuemu::lane() & -width) + width ? from : -1, 200);
}
template <class T> T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    int from = cuemu::lane() + (int)by;
    return cuemu::shuffle(mask, x, from < (cuemu::lane() & -width) + width ? from : -1, 300);
}
template <class T> T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    int from = cuemu::lane() - (int)by;
    return cuemu::shuffle(mask, x, from >= (cuemu::lane() & -width) ? from : -1, 400);
}

/* Only one thread at a time runs. */
template <class T> T atomicAdd(T *p, std::common_type_t<T> x)
{
    static_assert(std::is_integral_v<T>,
                  "atomics on floats are not in the product: their sums depend on who comes first");
    T was = *p;
    *p = was + x;
    return was;
}
inline void __threadfence()
{
}

#include "cuemu_launch.h"
#include "cuemu_runtime.h"
