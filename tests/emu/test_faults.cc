/* Errors in kernels and on the host, each with the line by which the emulator has to report it. Where a fault is
 * visible in a result alone, the function compares it and says "wrong". Each has a process of its own. */
#include "emulator.h"

static void expect(bool right)
{
    if (!right) {
        fprintf(stderr, "wrong\n");
        exit(1);
    }
}
static void expect_block_sums(const float *y)
{
    std::vector<float> v = fetched(y, 3);
    for (float x : v)
        expect(x == 5 * 256 * 255 / 2 + 256 * (1 + 2 + 3 + 4));
}
template <fault F> static void sums()
{
    float *y = device_memory<float>(3);
    go(nullptr, 3, 256, 8 * sizeof(float), block_sums<F>, y, 5);
    expect_block_sums(y);
}

/* ---- threads ---- */

static void no_barrier_before_a_sum()
{
    sums<EARLY>();
}
static void no_barrier_after_a_sum()
{
    sums<LATE>();
}
static void a_thread_gone_before_a_barrier()
{
    sums<GONE>();
}
static void a_lane_not_in_a_shuffle()
{
    sums<SHORT>();
}
static void no_syncwarp()
{
    float *x = device_memory<float>(64), *y = device_memory<float>(64);
    go(nullptr, 1, 64, 0, fill, (size_t)64, 1.0f, x);
    go(nullptr, 1, 64, 64 * sizeof(float), pass_on<EARLY>, (const float *)x, y, 31);
    for (float v : fetched(y, 64))
        expect(v == 1.0f);
}
static __global__ void two_shuffles(float *y)
{
    float x = (float)threadIdx.x;
    if (threadIdx.x < 16)
        x = __shfl_xor_sync(~0u, x, 1);
    else
        x = __shfl_down_sync(~0u, x, 1);
    y[threadIdx.x] = x;
}
static void lanes_in_different_shuffles()
{
    go(nullptr, 1, 32, 0, two_shuffles, device_memory<float>(32));
}
static __global__ void two_masks(float *y)
{
    y[threadIdx.x] = __shfl_sync(threadIdx.x < 16 ? 0x1ffffu : ~0u, 1.0f, 0);
}
static void lanes_with_different_masks()
{
    go(nullptr, 1, 32, 0, two_masks, device_memory<float>(32));
}
static __global__ void not_own_mask(float *y)
{
    y[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 0);
}
static void a_lane_not_in_its_mask()
{
    go(nullptr, 1, 32, 0, not_own_mask, device_memory<float>(32));
}
static void a_lane_that_is_not_there()
{
    go(nullptr, 1, 48, 48 * sizeof(float), pass_on<NONE>, (const float *)device_memory<float>(64),
       device_memory<float>(64), 1);
}
static __global__ void lane_outside(float *y)
{
    y[threadIdx.x] = __shfl_sync(threadIdx.x < 16 ? 0xffffu : 0xffff0000u, 1.0f, 20);
}
static void a_shuffle_from_a_lane_outside_of_the_mask()
{
    float *y = device_memory<float>(32);
    go(nullptr, 1, 32, 0, lane_outside, y);
    expect(fetched(y, 32)[0] == 1.0f);
}
static __global__ void two_barriers(int *y)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        y[threadIdx.x] = __syncthreads_or(1);
}
static void threads_at_different_barriers()
{
    go(nullptr, 1, 64, 0, two_barriers, device_memory<int>(64));
}
template <bool CLUSTER> static __global__ void all_but_one_wait()
{
    if (threadIdx.x != 40)
        cuemu::wait(CLUSTER ? cuemu::CLUSTER : cuemu::BARRIER);
}
static void a_thread_not_at_a_barrier()
{
    go(nullptr, 1, 64, 0, all_but_one_wait<false>);
}
static void a_thread_not_at_its_cluster()
{
    go_clusters(2, 2, 64, all_but_one_wait<true>);
}
static void blocks_of_a_cluster_that_do_not_wait()
{
    float *y = device_memory<float>(4 * 32);
    go_clusters(4, 4, 32, cluster_sums<EARLY>, device_memory<float>(4 * 32), y);
    expect(fetched(y, 4 * 32)[0] == 6.0f);
}
static void a_block_gone_before_its_cluster()
{
    go_clusters(4, 4, 32, cluster_sums<GONE>, device_memory<float>(4 * 32), device_memory<float>(4 * 32));
}
static void a_result_that_nobody_writes()
{
    float *x = device_memory<float>(64), *y = device_memory<float>(64);
    go(nullptr, 1, 64, 0, fill, (size_t)64, 1.0f, x);
    go(nullptr, 1, 64, 0, scale, (size_t)64, 2.0f, (const float *)x, y, (size_t)1);
    expect(fetched(y, 64)[0] == 2.0f);
}
static __global__ void large_variables(float *y)
{
    volatile float many[100000];
    for (int i = 99999; i >= 0; i--)
        many[i] = (float)i;
    y[threadIdx.x] = many[threadIdx.x];
}
static void variables_beyond_the_stack()
{
    go(nullptr, 1, 32, 0, large_variables, device_memory<float>(32));
}

/* ---- shared memory ---- */

static __global__ void touch_shared(int at, float *y)
{
    float *s = mf_shared<float>();
    if (y)
        *y = s[at];
    else
        s[at] = 1.0f;
}
static void shared_memory_read_unwritten()
{
    float *y = device_memory<float>(1);
    go(nullptr, 1, 1, 64, touch_shared, 1, y);
    float x = fetched(y, 1)[0];
    expect(x == x);
}
static __global__ void read_then_write(float *y)
{
    float *s = mf_shared<float>();
    y[blockIdx.x] = s[0];
    s[0] = 1.0f;
}
static void shared_memory_of_an_earlier_block()
{
    float *y = device_memory<float>(2);
    go(nullptr, 2, 1, 64, read_then_write, y);
    expect(fetched(y, 2)[1] == 1.0f);
}
static void shared_memory_read_beyond()
{
    go(nullptr, 1, 1, 64, touch_shared, 16, device_memory<float>(1));
}
static void shared_memory_written_beyond()
{
    go(nullptr, 1, 1, 52, touch_shared, 13, (float *)nullptr);
}
static void shared_memory_written_before()
{
    go(nullptr, 1, 1, 64, touch_shared, -1, (float *)nullptr);
}
static void shared_memory_never_asked_for()
{
    go(nullptr, 1, 1, 0, touch_shared, 0, (float *)nullptr);
}

/* ---- device memory ---- */

static __global__ void touch(float *p, ptrdiff_t at, float *y)
{
    if (y)
        *y = p[at];
    else
        p[at] = 1.0f;
}
static void memory_read_beyond()
{
    go(nullptr, 1, 1, 0, touch, device_memory<float>(64), (ptrdiff_t)64, device_memory<float>(1));
}
static void memory_read_far_before()
{
    go(nullptr, 1, 1, 0, touch, device_memory<float>(1024), (ptrdiff_t)-2, device_memory<float>(1));
}
static void memory_written_just_beyond()
{
    go(nullptr, 1, 1, 0, touch, device_memory<float>(50), (ptrdiff_t)50, (float *)nullptr);
    OK(cudaDeviceSynchronize());
}
static void memory_written_just_before()
{
    float *p = device_memory<float>(50);
    go(nullptr, 1, 1, 0, touch, p, (ptrdiff_t)-1, (float *)nullptr);
    OK(cudaFree(p));
}
static __global__ void move_4(const float *x, float *y)
{
    *reinterpret_cast<float4 *>(y) = *reinterpret_cast<const float4 *>(x);
}
static void an_address_not_aligned()
{
    go(nullptr, 1, 1, 0, move_4, (const float *)device_memory<float>(64) + 2, device_memory<float>(64));
}
static void memory_freed_before_a_kernel()
{
    float *p = device_memory<float>(64);
    OK(cudaFree(p));
    go(nullptr, 1, 1, 0, touch, p, (ptrdiff_t)3, (float *)nullptr);
}
static void memory_of_another_device()
{
    OK(cudaSetDevice(1));
    float *p[1] = {device_memory<float>(64)};
    OK(cudaSetDevice(0));
    go(nullptr, 1, 1, 0, touch, p[0], (ptrdiff_t)3, (float *)nullptr);
}
struct holder {
    float *p;
};
static __global__ void touch_held(holder h)
{
    h.p[3] = 1.0f;
}
static void memory_of_another_device_in_a_struct()
{
    OK(cudaSetDevice(1));
    holder h = {device_memory<float>(64)};
    OK(cudaSetDevice(0));
    go(nullptr, 1, 1, 0, touch_held, h);
}
static void memory_of_the_host_in_a_kernel()
{
    float x;
    go(nullptr, 1, 1, 0, touch, &x, (ptrdiff_t)0, (float *)nullptr);
}
static void the_host_reads_device_memory()
{
    float *p = device_memory<float>(64);
    OK(cudaMemset(p, 0, 64));
    printf("%g\n", *(volatile float *)p);
}
static void freed_twice()
{
    float *p = device_memory<float>(64);
    OK(cudaFree(p));
    OK(cudaFree(p));
}
static void freed_inside()
{
    OK(cudaFree(device_memory<float>(64) + 1));
}
static void pinned_freed_twice()
{
    float *p = pinned_memory<float>(64);
    OK(cudaFreeHost(p));
    OK(cudaFreeHost(p));
}
static void never_freed()
{
    device_memory<float>(64);
}

/* ---- copies ---- */

static float host[64];

static void a_copy_beyond()
{
    OK(cudaMemcpy(device_memory<float>(63), host, sizeof host, cudaMemcpyHostToDevice));
}
static void a_copy_in_the_wrong_direction()
{
    OK(cudaMemcpy(device_memory<float>(64), host, sizeof host, cudaMemcpyDeviceToHost));
}
static void a_copy_from_freed_memory()
{
    float *p = device_memory<float>(64);
    OK(cudaFree(p));
    OK(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
}
static void a_peer_copy_from_the_wrong_device()
{
    float *p = device_memory<float>(64);
    OK(cudaMemcpyPeerAsync(p, 0, p, 1, sizeof host, nullptr));
}
static void a_memset_of_the_host()
{
    OK(cudaMemset(host, 0, sizeof host));
}
static void a_result_read_before_it_is_there()
{
    cudaStream_t s = new_stream();
    float *p = device_memory<float>(64), *to = pinned_memory<float>(64);
    memset(to, 0, 64 * sizeof(float));
    go(s, 1, 64, 0, fill, (size_t)64, 1.0f, p);
    OK(cudaMemcpyAsync(to, p, 64 * sizeof(float), cudaMemcpyDeviceToHost, s));
    expect(to[0] == 1.0f);
}
static void a_staging_buffer_used_again()
{
    cudaStream_t s = new_stream();
    float *p = device_memory<float>(2), *from = pinned_memory<float>(1);
    from[0] = 1.0f;
    OK(cudaMemcpyAsync(p, from, sizeof(float), cudaMemcpyHostToDevice, s));
    from[0] = 2.0f;
    OK(cudaMemcpyAsync(p + 1, from, sizeof(float), cudaMemcpyHostToDevice, s));
    OK(cudaStreamSynchronize(s));
    expect(fetched(p, 2)[0] == 1.0f);
}
static void a_staging_buffer_freed()
{
    cudaStream_t s = new_stream();
    float *from = pinned_memory<float>(64);
    OK(cudaMemcpyAsync(device_memory<float>(64), from + 3, sizeof(float), cudaMemcpyHostToDevice, s));
    OK(cudaFreeHost(from));
}

/* ---- streams ---- */

template <bool BEFORE> static void two_streams()
{
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = device_memory<float>(64), *y = device_memory<float>(64);
    go(a, 1, 64, 0, fill, (size_t)64, 1.0f, x);
    OK(cudaStreamSynchronize(a));
    if (BEFORE)
        go(a, 1, 64, 0, fill, (size_t)64, 2.0f, x);
    go(b, 1, 64, 0, scale, (size_t)64, 1.0f, (const float *)x, y, (size_t)0);
    if (!BEFORE)
        go(a, 1, 64, 0, fill, (size_t)64, 2.0f, x);
    OK(cudaStreamSynchronize(b));
    expect(fetched(y, 64)[0] == (BEFORE ? 2.0f : 1.0f));
}
static void a_stream_that_does_not_wait_for_a_writer()
{
    two_streams<true>();
}
static void a_stream_that_does_not_wait_for_a_reader()
{
    two_streams<false>();
}
static void stream_0_beside_a_stream_that_does_not_block()
{
    cudaStream_t s = new_stream();
    float *x = device_memory<float>(64), *to = pinned_memory<float>(64);
    OK(cudaMemset(x, 0, 64 * sizeof(float)));
    OK(cudaMemcpyAsync(to, x, 64 * sizeof(float), cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    expect(to[0] == 0.0f);
}
static void a_stream_of_another_device()
{
    cudaStream_t s = new_stream();
    float *x = device_memory<float>(64);
    OK(cudaSetDevice(1));
    go(s, 1, 64, 0, fill, (size_t)64, 1.0f, x);
}
static void a_stream_that_was_destroyed()
{
    cudaStream_t s = new_stream();
    OK(cudaStreamDestroy(s));
    OK(cudaStreamSynchronize(s));
}
static void an_event_that_was_destroyed()
{
    cudaEvent_t e = new_event();
    OK(cudaEventDestroy(e));
    OK(cudaEventSynchronize(e));
}
static void an_event_of_another_device()
{
    cudaEvent_t e = new_event();
    OK(cudaSetDevice(1));
    OK(cudaEventRecord(e, new_stream()));
}

/* ---- captures ---- */

static cudaStream_t captured()
{
    cudaStream_t s = new_stream();
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    return s;
}
static void memory_taken_during_a_capture()
{
    captured();
    device_memory<float>(64);
}
static void a_wait_during_a_capture()
{
    OK(cudaStreamSynchronize(captured()));
}
static void stream_0_during_a_capture()
{
    float *x = device_memory<float>(64);
    captured();
    go(nullptr, 1, 64, 0, fill, (size_t)64, 1.0f, x);
}
static void a_captured_copy_of_pageable_memory()
{
    float *x = device_memory<float>(64);
    OK(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, captured()));
}
static void a_capture_that_waits_for_an_uncaptured_event()
{
    cudaEvent_t e = new_event();
    OK(cudaEventRecord(e, new_stream()));
    OK(cudaStreamWaitEvent(captured(), e, 0));
}
static void a_capture_that_does_not_join()
{
    cudaStream_t other = new_stream(), s = captured();
    cudaEvent_t e = new_event();
    cudaGraph_t g;
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(other, e, 0));
    float *x = nullptr;
    go(other, 1, 64, 0, fill, (size_t)0, 1.0f, x);
    OK(cudaStreamEndCapture(s, &g));
}
static void a_graph_of_another_device()
{
    cudaStream_t s = captured();
    cudaGraph_t g;
    cudaGraphExec_t x;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&x, g, 0));
    OK(cudaSetDevice(1));
    OK(cudaGraphLaunch(x, new_stream()));
}
static void a_graph_that_uses_freed_memory()
{
    float *x = device_memory<float>(64);
    cudaStream_t s = captured();
    cudaGraph_t g;
    cudaGraphExec_t instance;
    go(s, 1, 64, 0, fill, (size_t)64, 1.0f, x);
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&instance, g, 0));
    OK(cudaFree(x));
    OK(cudaGraphLaunch(instance, s));
}

/* ---- limits ---- */

static __global__ void nothing()
{
}
static void too_many_blocks_in_y()
{
    go(nullptr, dim3(1, 65536), 32, 0, nothing);
}
static void no_blocks()
{
    go(nullptr, 0, 32, 0, nothing);
}
static void too_many_threads()
{
    go(nullptr, 1, dim3(32, 33), 0, nothing);
}
static void too_much_shared_memory()
{
    OK(cudaFuncSetAttribute((const void *)nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10));
    go(nullptr, 1, 32, (227 << 10) + 1, nothing);
}
static void shared_memory_beyond_48_KiB()
{
    go(nullptr, 1, 32, (48 << 10) + 4, nothing);
}
static void shared_memory_allowed_on_another_device()
{
    OK(cudaFuncSetAttribute((const void *)nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    OK(cudaSetDevice(1));
    go(nullptr, 1, 32, 64 << 10, nothing);
}
static void a_cluster_that_is_not_portable()
{
    go_clusters(16, 16, 32, nothing);
}
static void a_cluster_that_does_not_divide_the_grid()
{
    go_clusters(4, 6, 32, nothing);
}

/* ---- the list ---- */

static const struct {
    const char *name, *set; /* the environment that shows it */
    const char *line;       /* has to be in what it prints */
    void (*run)();
} faults[] = {
#define FAULT(name, set, line)                                                                                         \
    {                                                                                                                  \
#name, set, line, name                                                                                         \
    }
    FAULT(no_barrier_before_a_sum, "", "wrong"),
    FAULT(no_barrier_after_a_sum, "", "wrong"),
    FAULT(a_thread_gone_before_a_barrier, "", "do not come"),
    FAULT(a_lane_not_in_a_shuffle, "", "wait in a shuffle for lanes 80000000, which do not come"),
    FAULT(no_syncwarp, "CUEMU_ORDER=1", "wrong"),
    FAULT(lanes_in_different_shuffles, "", "wait in different shuffles"),
    FAULT(lanes_with_different_masks, "", "or name different lanes"),
    FAULT(a_lane_not_in_its_mask, "", "a lane that is not in its own mask, 0000ffff"),
    FAULT(a_lane_that_is_not_there, "", "lanes 0000ffff of warp 1 wait in a shuffle for lanes ffff0000"),
    FAULT(a_shuffle_from_a_lane_outside_of_the_mask, "", "wrong"),
    FAULT(threads_at_different_barriers, "", "barriers of different kinds"),
    FAULT(a_thread_not_at_a_barrier, "", "63 of 64 threads wait at a barrier that the others never meet"),
    FAULT(a_thread_not_at_its_cluster, "", "63 of 64 threads wait at a cluster's barrier"),
    FAULT(blocks_of_a_cluster_that_do_not_wait, "", "wrong"),
    FAULT(a_block_gone_before_its_cluster, "", "3 of 4 blocks wait at a cluster's barrier"),
    FAULT(a_result_that_nobody_writes, "", "wrong"),
    FAULT(variables_beyond_the_stack, "", "need more than its stack"),
    FAULT(shared_memory_read_unwritten, "", "wrong"),
    FAULT(shared_memory_of_an_earlier_block, "", "wrong"),
    FAULT(shared_memory_read_beyond, "", "thread (0,0,0): reaches shared memory outside of the 64 bytes"),
    FAULT(shared_memory_written_beyond, "", "wrote beyond the 52 bytes of shared memory that were asked for, at 52"),
    FAULT(shared_memory_written_before, "", "wrote before its shared memory, at -4"),
    FAULT(shared_memory_never_asked_for, "", "outside of the 0 bytes"),
    FAULT(memory_read_beyond, "", "reaches outside of an allocation of 256 bytes of device 0, at 256"),
    FAULT(memory_read_far_before, "", "reaches outside of an allocation of 4096 bytes of device 0, at -8"),
    FAULT(memory_written_just_beyond, "",
          "the host waits: a write outside of an allocation of 200 bytes of device 0, at 200"),
    FAULT(memory_written_just_before, "CUEMU_GUARD=1",
          "a write outside of an allocation of 200 bytes of device 0, at -4"),
    FAULT(an_address_not_aligned, "", "an address that is not aligned to its type"),
    FAULT(memory_freed_before_a_kernel, "", "uses freed memory of device 0: byte 12 of 256"),
    FAULT(memory_of_another_device, "CUEMU_GUARD=1", "argument 1 is an address of device 1"),
    FAULT(memory_of_another_device_in_a_struct, "CUEMU_GUARD=1", "uses memory of device 1, which it has no access to"),
    FAULT(memory_of_the_host_in_a_kernel, "CUEMU_GUARD=1", "argument 1 is an address of the host's memory"),
    FAULT(the_host_reads_device_memory, "CUEMU_GUARD=1", "the host's code uses memory of device 0: byte 0 of 256"),
    FAULT(freed_twice, "", "cudaFree of memory that was freed before"),
    FAULT(freed_inside, "", "cudaFree of an address that cudaMalloc did not return"),
    FAULT(pinned_freed_twice, "", "cudaFreeHost of memory that was freed before"),
    FAULT(never_freed, "CUEMU_LEAKS=1", "leaked: 256 bytes in 1 allocations"),
    FAULT(a_copy_beyond, "", "a copy's target: bytes 0 to 256 of an allocation of 252 bytes"),
    FAULT(a_copy_in_the_wrong_direction, "", "cudaMemcpyDeviceToHost whose target is memory of the device"),
    FAULT(a_copy_from_freed_memory, "", "a copy's source: freed memory of device 0"),
    FAULT(a_peer_copy_from_the_wrong_device, "", "from device 1 to device 0 of memory of device 0 and device 0"),
    FAULT(a_memset_of_the_host, "", "a memset of the host's memory"),
    FAULT(a_result_read_before_it_is_there, "CUEMU_LATE=1", "wrong"),
    FAULT(a_staging_buffer_used_again, "CUEMU_LATE=1", "wrong"),
    FAULT(a_staging_buffer_freed, "CUEMU_LATE=1", "cudaFreeHost of memory that a copy still has to read or write"),
    FAULT(a_stream_that_does_not_wait_for_a_writer, "CUEMU_LATE=1", "wrong"),
    FAULT(a_stream_that_does_not_wait_for_a_reader, "CUEMU_LATE=2", "wrong"),
    FAULT(stream_0_beside_a_stream_that_does_not_block, "CUEMU_LATE=1", "wrong"),
    FAULT(a_stream_of_another_device, "", "a stream of device 0 while device 1 is current"),
    FAULT(a_stream_that_was_destroyed, "", "a stream that does not exist, or was destroyed"),
    FAULT(an_event_that_was_destroyed, "", "an event that does not exist, or was destroyed"),
    FAULT(an_event_of_another_device, "", "an event of device 0 is recorded in a stream of device 1"),
    FAULT(memory_taken_during_a_capture, "", "cudaMalloc during a capture"),
    FAULT(a_wait_during_a_capture, "", "cudaStreamSynchronize of a stream that is captured"),
    FAULT(stream_0_during_a_capture, "", "stream 0 is used while this thread captures another"),
    FAULT(a_captured_copy_of_pageable_memory, "", "host memory that is not pinned"),
    FAULT(a_capture_that_waits_for_an_uncaptured_event, "", "waits for an event that is not"),
    FAULT(a_capture_that_does_not_join, "", "ends before a stream that it forked has joined"),
    FAULT(a_graph_of_another_device, "", "captured on device 0 is launched on device 1"),
    FAULT(a_graph_that_uses_freed_memory, "", "uses freed memory of device 0"),
    FAULT(too_many_blocks_in_y, "", "more blocks than 65535 in y or z"),
    FAULT(no_blocks, "", "no blocks"),
    FAULT(too_many_threads, "", "a block of more than 1024 threads"),
    FAULT(too_much_shared_memory, "", "232449 bytes of shared memory, of which a block has 227 KiB"),
    FAULT(shared_memory_beyond_48_KiB, "", "49156 bytes of shared memory, where cudaFuncSetAttribute allowed 49152"),
    FAULT(shared_memory_allowed_on_another_device, "", "allowed 49152 on device 1"),
    FAULT(a_cluster_that_is_not_portable, "", "without cudaFuncAttributeNonPortableClusterSizeAllowed"),
    FAULT(a_cluster_that_does_not_divide_the_grid, "", "clusters of 4 among 6 blocks"),
};

static int run_fault(const char *name)
{
    for (auto &f : faults)
        if (!strcmp(f.name, name)) {
            f.run();
            OK(cudaDeviceSynchronize());
            return 0;
        }
    return 2;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_fault(argv[1]);
    std::string output;
    for (auto &f : faults) {
        int status = run_self(f.set, f.name, &output);
        bool reported = false;
        for (const char *line : {f.line, "AddressSanitizer:", "runtime error:"}) /* a sanitizer may come first */
            reported = reported || output.find(line) != std::string::npos;
        if (!ok(status && reported, "%s %s", f.name, f.set))
            printf("# status %d, and not \"%s\"\n%s", status, f.line, output.c_str());
    }
    return done();
}
