/* cuemu_launch.h - launches of kernels, held against the limits of a device. */
#pragma once
#include "cuemu_device.h"

#include <tuple>

namespace cuemu
{
struct function {
    int smem = 48 << 10;
    bool large_clusters = false;
};
inline std::map<const void *, function> functions[DEVICES]; /* whose attributes were set on the device */

struct shape {
    dim3 grid, block;
    int cluster;
    size_t smem;
    CUstream_st *stream;
};

/* Limits of a device of compute capability 9.0. */
inline shape check_launch(const cudaLaunchConfig_t *c, const void *f)
{
    dim3 g = c->gridDim, d = c->blockDim;
    shape how = {g, d, 1, c->dynamicSmemBytes, stream_of(c->stream)};
    for (unsigned i = 0; i < c->numAttrs; i++)
        if (c->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            auto n = c->attrs[i].val.clusterDim;
            if (n.y != 1 || n.z != 1)
                die("launch of %s: a cluster of (%u,%u,%u) blocks; the emulator has those of (n,1,1)",
                    name_of(f).c_str(), n.x, n.y, n.z);
            how.cluster = (int)n.x;
        }
    function of;
    if (auto at = functions[current].find(f); at != functions[current].end())
        of = at->second;
    size_t most = (size_t)of.smem;
    std::string why;
    if (how.stream->device != current)
        why = "a stream of device " + std::to_string(how.stream->device) + " while device " + std::to_string(current) +
              " is current";
    else if (!g.x || !g.y || !g.z || !d.x || !d.y || !d.z)
        why = "no blocks, or blocks of no threads";
    else if (g.x > INT_MAX || g.y > 65535 || g.z > 65535)
        why = "more blocks than 65535 in y or z, or than 2^31 - 1 in x";
    else if (d.x > CUEMU_THREADS || d.y > CUEMU_THREADS || d.z > 64 || d.x * d.y * d.z > CUEMU_THREADS)
        why = "a block of more than 1024 threads, or than 64 in z";
    else if (how.smem > CUEMU_SMEM)
        why = std::to_string(how.smem) + " bytes of shared memory, of which a block has 227 KiB";
    else if (how.smem > most)
        why = std::to_string(how.smem) + " bytes of shared memory, where cudaFuncSetAttribute allowed " +
              std::to_string(most) + " on device " + std::to_string(current);
    else if (how.cluster < 1 || how.cluster > CUEMU_CLUSTER || g.x % (unsigned)how.cluster)
        why = "clusters of " + std::to_string(how.cluster) + " among " + std::to_string(g.x) + " blocks; 16 at most";
    else if (how.cluster > 8 && !of.large_clusters)
        why = "clusters of more than 8 blocks without cudaFuncAttributeNonPortableClusterSizeAllowed";
    if (!why.empty())
        die("launch of %s: %s", name_of(f).c_str(), why.c_str());
    return how;
}
} // namespace cuemu

inline cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute which, int value)
{
    CUEMU_ENTER;
    cuemu::function &of = cuemu::functions[cuemu::current][f];
    if (which == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value > CUEMU_SMEM)
            return cuemu::fail(cudaErrorInvalidValue);
        of.smem = value;
    } else if (which == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        of.large_clusters = value != 0;
    } else {
        return cuemu::fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
namespace cuemu
{
/* A kernel and its arguments: by value, as a device takes them at once. */
template <class... P> struct packed {
    void (*f)(P...);
    std::tuple<P...> args;
    static void call(const void *p)
    {
        const packed *k = static_cast<const packed *>(p);
        std::apply(k->f, k->args);
    }
};

/* With CUEMU_GUARD: that an argument, where it is an address, is one that the device has access to. Addresses within a
 * struct are not looked at. */
template <class T> void check_argument(const void *f, int i, const T &x)
{
    if constexpr (std::is_pointer_v<T>) {
        const mapping *m = x ? find_mapping(reinterpret_cast<const void *>(x)) : nullptr;
        if (x && (!m || m->device < HOST))
            die("launch of %s: argument %d is an address of the host's memory", name_of(f).c_str(), i);
        if (x && m->device >= 0 && m->device != current && !peers[current][m->device])
            die("launch of %s: argument %d is an address of device %d, which device %d has no access to",
                name_of(f).c_str(), i, m->device, current);
    }
}
} // namespace cuemu

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*f)(P...), A &&...args)
{
    CUEMU_ENTER;
    cuemu::shape how = cuemu::check_launch(c, reinterpret_cast<const void *>(f));
    cuemu::packed<P...> k = {f, std::tuple<P...>(std::forward<A>(args)...)};
    if (cuemu::set.trace) {
        fprintf(cuemu::set.trace, "%u %u %u  %u %u %u  %d %zu  %s\n", how.grid.x, how.grid.y, how.grid.z, how.block.x,
                how.block.y, how.block.z, how.cluster, how.smem,
                cuemu::name_of(reinterpret_cast<const void *>(f)).c_str());
        fflush(cuemu::set.trace);
    }
    if (cuemu::set.guard)
        std::apply(
            [&](const auto &...x) {
                int i = 0;
                (cuemu::check_argument(reinterpret_cast<const void *>(f), ++i, x), ...);
            },
            k.args);
    cuemu::enqueue(how.stream, [=] {
        cuemu::opened memory(how.stream->device, true);
        cuemu::kernel = reinterpret_cast<const void *>(f);
        cuemu::launch(how.grid, how.block, how.cluster, how.smem, k.call, &k);
        if (cuemu::set.guard)
            cuemu::check_blocks(how.stream->device, "");
        cuemu::kernel = nullptr;
    });
    return cudaSuccess;
}
