/* cuemu_runtime.h - the functions of the CUDA runtime. Names, types and constants are those of the toolkit's header. */
#pragma once
#include "cuemu_fibers.h"
#include "cuemu_stream.h"

#include <tuple>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrClusterLaunch = 120
};
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
union cudaLaunchAttributeValue {
    struct {
        unsigned x, y, z;
    } clusterDim;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int warpSize, maxThreadsPerBlock, major, minor, multiProcessorCount, l2CacheSize;
};

/* ---- errors, devices ---- */

namespace cuemu
{
inline thread_local cudaError_t last_error;
inline cudaError_t fail(cudaError_t e)
{
    return last_error = e;
}
inline cudaError_t no_device()
{
    return set.devices > 0 ? cudaSuccess : fail(set.devices ? cudaErrorInsufficientDriver : cudaErrorNoDevice);
}
/* At the top of each function. */
#define CUEMU_ENTER                                                                                                    \
    std::lock_guard<std::recursive_mutex> cuemu_entered(cuemu::gate);                                                  \
    if (cuemu::no_device())                                                                                            \
    return cuemu::last_error
} // namespace cuemu

inline cudaError_t cudaGetLastError()
{
    cudaError_t e = cuemu::last_error;
    cuemu::last_error = cudaSuccess;
    return e;
}
inline cudaError_t cudaPeekAtLastError()
{
    return cuemu::last_error;
}
inline const char *cudaGetErrorName(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
        return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
        return "cudaErrorPeerAccessAlreadyEnabled";
    }
    return "unrecognized error code";
}
inline const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled:
        return "peer access is already enabled";
    }
    return "unrecognized error code";
}
inline cudaError_t cudaDriverGetVersion(int *v)
{
    *v = cuemu::set.devices < 0 ? 0 : 13000;
    return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = 13000;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 0;
    CUEMU_ENTER;
    *n = cuemu::set.devices;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device)
{
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    cuemu::current = device;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    CUEMU_ENTER;
    *device = cuemu::current;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    *p = {};
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    snprintf(p->name, sizeof p->name, "emulated GPU");
    p->totalGlobalMem = cuemu::set.memory;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = CUEMU_SMEM;
    p->sharedMemPerMultiprocessor = CUEMU_SMEM + 1024;
    p->warpSize = 32;
    p->maxThreadsPerBlock = CUEMU_THREADS;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->l2CacheSize = 50 << 20;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int device)
{
    cudaDeviceProp p;
    *value = 0;
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess)
        return e;
    switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrWarpSize:
        *value = p.warpSize;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
    case cudaDevAttrL2CacheSize:
        *value = p.l2CacheSize;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)p.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrClusterLaunch:
        *value = 1;
        break;
    default:
        return cuemu::fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    snprintf(id, (size_t)size, "0000:%02X:00.0", 0x1b + device);
    return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    CUEMU_ENTER;
    if (device < 0 || device >= cuemu::set.devices || peer < 0 || peer >= cuemu::set.devices)
        return cuemu::fail(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    CUEMU_ENTER;
    if (peer < 0 || peer >= cuemu::set.devices || peer == cuemu::current)
        return cuemu::fail(cudaErrorInvalidDevice);
    if (cuemu::peers[cuemu::current][peer])
        return cuemu::fail(cudaErrorPeerAccessAlreadyEnabled);
    cuemu::peers[cuemu::current][peer] = true;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize()
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaDeviceSynchronize");
    cuemu::wait_for_device(cuemu::current);
    return cudaSuccess;
}

/* ---- memory ---- */

inline cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = *all = 0;
    CUEMU_ENTER;
    *all = cuemu::set.memory;
    *left = *all - cuemu::used[cuemu::current];
    return cudaSuccess;
}
template <class T> cudaError_t cudaMalloc(T **p, size_t n)
{
    *p = nullptr;
    CUEMU_ENTER;
    cuemu::not_captured("cudaMalloc");
    if (n && !(*p = static_cast<T *>(cuemu::take(cuemu::current, n))))
        return cuemu::fail(cudaErrorMemoryAllocation);
    return cudaSuccess;
}
template <class T> cudaError_t cudaMallocHost(T **p, size_t n, unsigned = 0)
{
    *p = nullptr;
    CUEMU_ENTER;
    cuemu::not_captured("cudaMallocHost");
    if (n)
        *p = static_cast<T *>(cuemu::take(cuemu::HOST, n));
    return cudaSuccess;
}
inline cudaError_t cudaFree(void *p)
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaFree");
    if (!p)
        return cudaSuccess;
    cuemu::mapping *m = cuemu::find_mapping(p);
    if (!m || m->device < 0 || m->at != p)
        cuemu::die("cudaFree of an address that cudaMalloc did not return");
    if (m->freed)
        cuemu::die("cudaFree of memory that was freed before");
    cuemu::wait_for_device(m->device);
    cuemu::give(m);
    return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void *p)
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaFreeHost");
    if (!p)
        return cudaSuccess;
    cuemu::mapping *m = cuemu::find_mapping(p);
    if (!m || m->device != cuemu::HOST || m->at != p)
        cuemu::die("cudaFreeHost of an address that cudaMallocHost did not return");
    if (m->freed)
        cuemu::die("cudaFreeHost of memory that was freed before");
    if (cuemu::pending(m->at, m->n))
        cuemu::die("cudaFreeHost of memory that a copy still has to read or write");
    cuemu::give(m);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind, cudaStream_t s = nullptr)
{
    CUEMU_ENTER;
    cuemu::copy_async(to, from, n, kind, cuemu::stream_of(s));
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyPeerAsync(void *to, int there, const void *from, int here, size_t n,
                                       cudaStream_t s = nullptr)
{
    CUEMU_ENTER;
    cuemu::sides c = cuemu::check_copy(to, from, n, cudaMemcpyDeviceToDevice);
    if (n && (c.to->device != there || c.from->device != here))
        cuemu::die("cudaMemcpyPeerAsync from device %d to device %d of memory of device %d and device %d", here, there,
                   c.from->device, c.to->device);
    cuemu::copy_async(to, from, n, cudaMemcpyDeviceToDevice, cuemu::stream_of(s));
    return cudaSuccess;
}
inline cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t s = nullptr)
{
    CUEMU_ENTER;
    cuemu::set_async(to, pitch, value, width, height, cuemu::stream_of(s));
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t s = nullptr)
{
    return cudaMemset2DAsync(to, n, value, n, 1, s);
}
/* These wait for stream 0, and for the streams that wait for it. */
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaMemcpy");
    cudaStream_t s = cuemu::stream_of(nullptr);
    cuemu::copy_async(to, from, n, kind, s);
    cuemu::wait_for(s, UINT64_MAX);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void *to, int value, size_t n)
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaMemset");
    cuemu::set_async(to, n, value, n, 1, cuemu::stream_of(nullptr));
    return cudaSuccess;
}

/* ---- streams ---- */

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    *s = nullptr;
    CUEMU_ENTER;
    *s = new CUstream_st{cuemu::current, !(flags & cudaStreamNonBlocking), {}, nullptr};
    cuemu::streams.push_back(*s);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    return cudaStreamCreateWithFlags(s, cudaStreamDefault);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    CUEMU_ENTER;
    s = cuemu::stream_of(s);
    if (s->captured)
        cuemu::die("cudaStreamSynchronize of a stream that is captured");
    cuemu::wait_for(s, UINT64_MAX);
    return cudaSuccess;
}
/* A stream that was asked does something, so that a host that asks until it is done does not ask for ever. */
inline cudaError_t cudaStreamQuery(cudaStream_t s)
{
    CUEMU_ENTER;
    s = cuemu::stream_of(s);
    if (s->queue.empty())
        return cudaSuccess;
    cuemu::execute_first(s);
    return cuemu::fail(cudaErrorNotReady);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    CUEMU_ENTER;
    cuemu::check_stream(s);
    if (s->captured)
        cuemu::die("cudaStreamDestroy of a stream that is captured");
    cuemu::advance(s, UINT64_MAX);
    for (size_t i = 0; i < cuemu::streams.size(); i++)
        if (cuemu::streams[i] == s)
            cuemu::streams.erase(cuemu::streams.begin() + (long)i);
    delete s;
    return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *is)
{
    *is = cudaStreamCaptureStatusNone;
    CUEMU_ENTER;
    if (s && s->captured)
        *is = cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

/* ---- events ---- */

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    *e = nullptr;
    CUEMU_ENTER;
    *e = new CUevent_st{std::make_shared<cuemu::event>()};
    (*e)->is->device = cuemu::current;
    (*e)->is->timed = !(flags & cudaEventDisableTiming);
    cuemu::events.insert(*e);
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, cudaEventDefault);
}
namespace cuemu
{
inline event *event_of(cudaEvent_t e)
{
    check_alive(events, e, "an event");
    return e->is.get();
}
} // namespace cuemu
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr)
{
    CUEMU_ENTER;
    cuemu::record(cuemu::event_of(e), e->is, cuemu::stream_of(s));
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned = 0)
{
    CUEMU_ENTER;
    cuemu::event_of(e);
    cuemu::wait_event(cuemu::stream_of(s), e->is);
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    CUEMU_ENTER;
    cuemu::event *is = cuemu::event_of(e);
    if (is->was_captured)
        cuemu::die("the host waits for an event that was recorded in a capture");
    if (is->done < is->number)
        cuemu::wait_for(is->in, is->number);
    return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t e)
{
    CUEMU_ENTER;
    cuemu::event *is = cuemu::event_of(e);
    if (is->was_captured)
        cuemu::die("the host asks for an event that was recorded in a capture");
    if (is->done >= is->number)
        return cudaSuccess;
    cuemu::execute_first(is->in);
    return cuemu::fail(cudaErrorNotReady);
}
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = 0.0f;
    CUEMU_ENTER;
    cuemu::event *a = cuemu::event_of(from), *b = cuemu::event_of(to);
    if (!a->timed || !b->timed || !a->number || !b->number)
        return cuemu::fail(cudaErrorInvalidResourceHandle);
    if (a->done < a->number || b->done < b->number)
        return cuemu::fail(cudaErrorNotReady);
    *ms = (float)(b->ms - a->ms);
    return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    CUEMU_ENTER;
    cuemu::event_of(e);
    cuemu::events.erase(e);
    delete e;
    return cudaSuccess;
}

/* ---- graphs ---- */

inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    CUEMU_ENTER;
    if (!s)
        cuemu::die("a capture of stream 0");
    cuemu::check_stream(s);
    if (s->captured)
        cuemu::die("a capture of a stream that is captured");
    s->captured = std::make_shared<cuemu::capture>();
    s->captured->origin = s;
    s->captured->graph = new CUgraph_st{{}, s->device};
    cuemu::graphs.insert(s->captured->graph);
    cuemu::captures++;
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    *g = nullptr;
    CUEMU_ENTER;
    cuemu::check_stream(s);
    *g = cuemu::end_capture(s);
    cuemu::captures--;
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long = 0)
{
    *x = nullptr;
    CUEMU_ENTER;
    cuemu::check_alive(cuemu::graphs, g, "a graph");
    *x = new CUgraphExec_st{g->all, g->device};
    cuemu::execs.insert(*x);
    return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    CUEMU_ENTER;
    cuemu::check_alive(cuemu::execs, x, "an instance of a graph");
    s = cuemu::stream_of(s);
    if (x->device != s->device)
        cuemu::die("a graph that was captured on device %d is launched on device %d", x->device, s->device);
    for (const cuemu::operation &o : x->all)
        cuemu::enqueue(s, o.run, o.host, o.n);
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    CUEMU_ENTER;
    cuemu::check_alive(cuemu::execs, x, "an instance of a graph");
    cuemu::execs.erase(x);
    delete x;
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    CUEMU_ENTER;
    cuemu::check_alive(cuemu::graphs, g, "a graph");
    cuemu::graphs.erase(g);
    delete g;
    return cudaSuccess;
}

/* ---- kernels ---- */

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
} // namespace cuemu

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*f)(P...), A &&...args)
{
    CUEMU_ENTER;
    cuemu::shape how = cuemu::check_launch(c, reinterpret_cast<const void *>(f));
    cuemu::packed<P...> k = {f, std::tuple<P...>(std::forward<A>(args)...)};
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
