/* cuemu_runtime.h - the CUDA runtime's memory, streams, events and graphs. */
#pragma once
#include "cuemu_device.h"

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
    if (cuemu::is_ready(s))
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
    if (cuemu::is_ready(is->in))
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
    static int launches;
    if (cuemu::set.breaks && ++launches == cuemu::set.breaks)
        return cuemu::fail(cudaErrorIllegalAddress);
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

/* Waits, and gives back all that the device has: memory, streams, access to peers. */
inline cudaError_t cudaDeviceReset()
{
    CUEMU_ENTER;
    cuemu::not_captured("cudaDeviceReset");
    int device = cuemu::current;
    cuemu::wait_for_device(device);
    for (size_t i = cuemu::streams.size(); i-- > 0;)
        if (cuemu::streams[i]->device == device)
            cudaStreamDestroy(cuemu::streams[i]);
    while (!cuemu::in_use[device].empty())
        cuemu::give(*cuemu::in_use[device].begin());
    for (bool &peer : cuemu::peers[device])
        peer = false;
    return cudaSuccess;
}
