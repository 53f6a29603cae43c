/* What has to work on the emulator, in any order of threads, late or not, guarded or not. */
#include "emulator.h"

/* Not all of them can be in `right`: else equal bits would compare as different. */
template <class T> static bool same(const std::vector<T> &v, const std::vector<T> &right)
{
    return v.size() == right.size() && !memcmp(v.data(), right.data(), v.size() * sizeof(T));
}
template <class T, class F> static std::vector<T> numbers(int n, F f)
{
    std::vector<T> v((size_t)n);
    for (int i = 0; i < n; i++)
        v[(size_t)i] = (T)f(i);
    return v;
}
template <class T> static T *sent(const std::vector<T> &v)
{
    T *p = device_memory<T>(v.size());
    OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

/* ---- threads ---- */

static __global__ void indices(unsigned *y)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    y[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block << 16 | thread;
}
static bool every_thread_of_every_block()
{
    unsigned *y = device_memory<unsigned>(24 * 60);
    go(nullptr, dim3(2, 3, 4), dim3(5, 4, 3), 0, indices, y); /* its last warp is not whole */
    return same(fetched(y, 24 * 60), numbers<unsigned>(24 * 60, [](int i) { return i / 60 << 16 | i % 60; }));
}
static bool arguments_by_value()
{
    std::vector<float> x = numbers<float>(1000, [](int i) { return i; });
    float *p = sent(x);
    float a = 2.0f;
    size_t n = x.size();
    go(nullptr, 8, 128, 0, scale, n, a, (const float *)p, p, (size_t)0);
    a = 3.0f, n = 0;
    return same(fetched(p, 1000), numbers<float>(1000, [](int i) { return 2 * i; }));
}
static bool barriers_and_shuffles()
{
    float *y = device_memory<float>(3);
    go(nullptr, 3, 256, 8 * sizeof(float), block_sums<NONE>, y, 5);
    return same(fetched(y, 3), std::vector<float>(3, 5 * 256 * 255 / 2 + 256 * 10));
}
static bool syncwarp()
{
    float *x = sent(numbers<float>(64, [](int i) { return i; })), *y = device_memory<float>(64);
    go(nullptr, 1, 64, 64 * sizeof(float), pass_on<NONE>, (const float *)x, y, 5);
    return same(fetched(y, 64), numbers<float>(64, [](int i) { return i / 32 * 32 + (i + 5) % 32; }));
}
static __global__ void all_shuffles(double *y)
{
    double x = threadIdx.x + 0.1;
    y[threadIdx.x] = __shfl_sync(~0u, x, 7);
    y[32 + threadIdx.x] = __shfl_xor_sync(~0u, x, 5);
    y[64 + threadIdx.x] = __shfl_up_sync(~0u, x, 3);
    y[96 + threadIdx.x] = __shfl_down_sync(~0u, x, 3);
    y[128 + threadIdx.x] = __shfl_down_sync(~0u, x, 3, 8);
    y[160 + threadIdx.x] = __shfl_sync(~0u, x, 9, 8);
    /* Half a warp shuffles more often than the other. */
    if (threadIdx.x < 16)
        x = __shfl_xor_sync(0xffffu, x, 1);
    y[192 + threadIdx.x] = __shfl_xor_sync(~0u, x, 16);
}
static bool shuffles_of_doubles()
{
    double *y = device_memory<double>(224);
    go(nullptr, 1, 32, 0, all_shuffles, y);
    return same(fetched(y, 224), numbers<double>(224, [](int i) {
                    int l = i % 32, from[] = {7,
                                              l ^ 5,
                                              l < 3 ? l : l - 3,
                                              l > 28 ? l : l + 3,
                                              l % 8 > 4 ? l : l + 3,
                                              l / 8 * 8 + 1,
                                              l < 16 ? l + 16 : (l - 16) ^ 1};
                    return from[i / 32] + 0.1;
                }));
}
static __global__ void all_votes(unsigned *y)
{
    int t = (int)threadIdx.x, a = __syncthreads_count(t % 3 == 0), b = __syncthreads_or(t == 70),
        c = __syncthreads_and(t < 70);
    unsigned d = __ballot_sync(~0u, t % 2), e = (unsigned)__any_sync(~0u, t == 40),
             f = (unsigned)__all_sync(~0u, t < 32);
    y[t] = (unsigned)a | (unsigned)b << 8 | (unsigned)c << 9 | e << 10 | f << 11 | (d == 0xaaaaaaaau) << 12;
}
static bool votes()
{
    unsigned *y = device_memory<unsigned>(96);
    go(nullptr, 1, 96, 0, all_votes, y);
    return same(fetched(y, 96), numbers<unsigned>(96, [](int i) {
                    return 32 | 1 << 8 | (i / 32 == 1) << 10 | (i < 32) << 11 | 1 << 12;
                }));
}
static bool clusters()
{
    bool good = true;
    OK(cudaFuncSetAttribute((const void *)cluster_sums<NONE>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    for (unsigned n : {1u, 2u, 8u, 16u}) {
        float *y = device_memory<float>(n * 64);
        go_clusters(n, n, 64, cluster_sums<NONE>, device_memory<float>(n * 64), y);
        good = good && same(fetched(y, n * 64), numbers<float>((int)n * 64, [n](int i) {
                                return (int)(n * (n - 1) / 2) + (int)n * (i % 64);
                            }));
    }
    return good;
}
static __global__ void count_up(int *p, unsigned *q, int *was)
{
    was[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(p, 3);
    atomicAdd(q, 1);
}
static bool integer_atomics()
{
    int *p = sent(std::vector<int>{0}), *was = device_memory<int>(200);
    unsigned *q = sent(std::vector<unsigned>{0});
    go(nullptr, 2, 100, 0, count_up, p, q, was);
    std::vector<int> seen = fetched(was, 200);
    int sum = 0;
    for (int i : seen)
        sum += i;
    return fetched(p, 1)[0] == 600 && fetched(q, 1)[0] == 200 && sum == 3 * 199 * 200 / 2;
}
static __global__ void some_functions(float *y)
{
    float n = NAN;
    y[0] = max(n, 1.0f), y[1] = min(2.0f, n), y[2] = (float)max(3u, 2u), y[3] = (float)min(-1, 1);
    y[4] = rsqrtf(16.0f), y[5] = __ldg(y + 4);
    float4 v = make_float4(6.0f, 7.0f, 8.0f, 9.0f);
    *reinterpret_cast<float4 *>(y + 8) = v;
}
static bool functions()
{
    float *y = device_memory<float>(12);
    OK(cudaMemset(y, 0, 12 * sizeof(float)));
    go(nullptr, 1, 1, 0, some_functions, y);
    return same(fetched(y, 12), {1, 2, 3, -1, .25f, .25f, 0, 0, 6, 7, 8, 9});
}

/* ---- memory ---- */

static bool new_memory_is_nan()
{
    size_t n = 40 << 20;
    float *p = device_memory<float>(n / 4);
    bool good = true;
    for (size_t at : {(size_t)0, (size_t)12345, n / 4 - 1}) {
        float x = 0.0f;
        OK(cudaMemcpy(&x, p + at, sizeof x, cudaMemcpyDeviceToHost));
        good = good && x != x;
    }
    OK(cudaFree(p));
    return good;
}
static bool large_memory_is_there_to_its_end()
{
    size_t n = 80 << 20;
    char *p = device_memory<char>(n), sent = 7, got = 0;
    OK(cudaMemcpy(p + n - 1, &sent, 1, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(&got, p + n - 1, 1, cudaMemcpyDeviceToHost));
    OK(cudaFree(p));
    return got == sent;
}
static bool memory_runs_out()
{
    size_t left, all, after;
    float *p = nullptr, *q = nullptr;
    OK(cudaMemGetInfo(&left, &all));
    OK(cudaMalloc(&p, left / 2));
    bool good = all == 1000000000 && cudaMalloc(&q, left) == cudaErrorMemoryAllocation && q == nullptr &&
                cudaPeekAtLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaErrorMemoryAllocation &&
                cudaGetLastError() == cudaSuccess &&
                !strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    OK(cudaMemGetInfo(&after, &all));
    good = good && after <= left - left / 2;
    OK(cudaFree(p));
    OK(cudaMemGetInfo(&after, &all));
    OK(cudaFree(nullptr));
    return good && after == left;
}
static bool memset_of_a_rectangle()
{
    unsigned char *p = sent(std::vector<unsigned char>(40, 1));
    OK(cudaMemset2DAsync(p + 2, 10, 7, 3, 4, nullptr));
    return same(fetched(p, 40), numbers<unsigned char>(40, [](int i) { return i % 10 >= 2 && i % 10 < 5 ? 7 : 1; }));
}
static bool pageable_copies_are_done_at_once()
{
    cudaStream_t s = new_stream();
    float *p = device_memory<float>(64), x[64], y[64];
    for (float &v : x)
        v = 1.0f;
    OK(cudaMemcpyAsync(p, x, sizeof x, cudaMemcpyHostToDevice, s));
    x[5] = 2.0f;
    OK(cudaMemcpyAsync(y, p, sizeof y, cudaMemcpyDefault, s));
    return y[5] == 1.0f;
}

/* ---- devices ---- */

static bool two_devices()
{
    int n = 0, major = 0, threads = 0, can = 0, now = -1;
    cudaDeviceProp p;
    OK(cudaGetDeviceCount(&n));
    OK(cudaGetDeviceProperties(&p, 1));
    OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    OK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, 0));
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    bool good = n == 2 && !strcmp(p.name, "emulated GPU") && p.totalGlobalMem == 1000000000 && p.major == 9 &&
                major == 9 && threads == 1024 && can && cudaSetDevice(2) == cudaErrorInvalidDevice;
    OK(cudaGetDevice(&now));
    return good && now == 0 && cudaGetLastError() == cudaErrorInvalidDevice;
}
static bool kernels_reach_peers()
{
    OK(cudaSetDevice(1));
    float *there = device_memory<float>(64);
    OK(cudaSetDevice(0));
    float *here = device_memory<float>(64);
    cudaStream_t s = new_stream();
    OK(cudaDeviceEnablePeerAccess(1, 0));
    bool good = cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled;
    cudaGetLastError();
    go(s, 1, 64, 0, fill, (size_t)64, 4.0f, there);
    OK(cudaMemcpyPeerAsync(here, 0, there, 1, 64 * sizeof(float), s));
    OK(cudaStreamSynchronize(s));
    return good && same(fetched(here, 64), std::vector<float>(64, 4.0f));
}
static bool a_reset_gives_all_back()
{
    size_t left, all;
    OK(cudaSetDevice(1));
    device_memory<float>(1000);
    new_stream();
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&left, &all));
    OK(cudaSetDevice(0));
    return left == all;
}

/* ---- streams, events, graphs ---- */

static bool streams_that_wait()
{
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t written = new_event(), read = new_event();
    float *x = device_memory<float>(64), *y = device_memory<float>(64), *to = pinned_memory<float>(64);
    bool good = true;
    for (int i = 0; i < 3; i++) {
        OK(cudaStreamWaitEvent(a, read, 0)); /* the first time it was never recorded, which is no wait */
        go(a, 1, 64, 0, fill, (size_t)64, (float)i, x);
        OK(cudaEventRecord(written, a));
        OK(cudaStreamWaitEvent(b, written, 0));
        go(b, 1, 64, 0, scale, (size_t)64, 2.0f, (const float *)x, y, (size_t)0);
        OK(cudaEventRecord(read, b));
        OK(cudaMemcpyAsync(to, y, 64 * sizeof(float), cudaMemcpyDeviceToHost, b));
        OK(cudaStreamSynchronize(b));
        good = good && to[63] == 2.0f * (float)i;
    }
    return good;
}
static bool events()
{
    cudaStream_t s = new_stream();
    cudaEvent_t from = new_event(cudaEventDefault), to = new_event(cudaEventDefault);
    float *x = device_memory<float>(64), ms = -1.0f;
    bool good = cudaEventQuery(to) == cudaSuccess; /* never recorded */
    OK(cudaEventRecord(from, s));
    go(s, 1, 64, 0, fill, (size_t)64, 1.0f, x);
    OK(cudaEventRecord(to, s));
    int asked = 0;
    while (cudaEventQuery(to) == cudaErrorNotReady)
        asked++;
    good = good && asked == (cuemu::set.late ? 3 : 0);
    OK(cudaEventRecord(to, s));
    OK(cudaEventSynchronize(to));
    OK(cudaEventElapsedTime(&ms, from, to));
    cudaGetLastError();
    return good && ms >= 0.0f && cudaStreamQuery(s) == cudaSuccess;
}
static bool stream_0_and_streams_that_block()
{
    cudaStream_t s;
    float *x = device_memory<float>(64), to[64];
    OK(cudaStreamCreate(&s));
    OK(cudaMemset(x, 0, sizeof to));
    go(s, 1, 64, 0, fill, (size_t)64, 1.0f, x);
    OK(cudaMemcpy(to, x, sizeof to, cudaMemcpyDeviceToHost));
    return to[0] == 1.0f;
}
static bool graphs()
{
    cudaStream_t s = new_stream();
    cudaStreamCaptureStatus is;
    cudaGraph_t g;
    cudaGraphExec_t x;
    float *p = device_memory<float>(2), *from = pinned_memory<float>(1), a = 3.0f;
    bool good = true;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(p, from, sizeof(float), cudaMemcpyHostToDevice, s));
    go(s, 1, 1, 0, scale, (size_t)1, a, (const float *)p, p + 1, (size_t)0);
    OK(cudaStreamIsCapturing(s, &is));
    good = good && is == cudaStreamCaptureStatusActive;
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaStreamIsCapturing(s, &is));
    good = good && is == cudaStreamCaptureStatusNone;
    OK(cudaGraphInstantiate(&x, g, 0));
    OK(cudaGraphDestroy(g));
    a = 0.0f;
    for (int i = 1; i < 4; i++) {
        from[0] = (float)i; /* a replay reads what is there */
        OK(cudaGraphLaunch(x, s));
        OK(cudaStreamSynchronize(s));
        good = good && fetched(p + 1, 1)[0] == 3.0f * (float)i;
    }
    OK(cudaGraphExecDestroy(x));
    return good;
}
static bool a_capture_of_two_devices()
{
    cudaStream_t s = new_stream();
    float *x = device_memory<float>(64), *y;
    OK(cudaSetDevice(1));
    y = device_memory<float>(64);
    cudaStream_t t = new_stream();
    cudaEvent_t back = new_event();
    OK(cudaSetDevice(0));
    cudaEvent_t forth = new_event();
    cudaGraph_t g;
    cudaGraphExec_t instance;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    go(s, 1, 64, 0, fill, (size_t)64, 5.0f, x);
    OK(cudaEventRecord(forth, s));
    OK(cudaStreamWaitEvent(t, forth, 0));
    OK(cudaMemcpyPeerAsync(y, 1, x, 0, 64 * sizeof(float), t));
    OK(cudaSetDevice(1));
    go(t, 1, 64, 0, scale, (size_t)64, 2.0f, (const float *)y, y, (size_t)0);
    OK(cudaSetDevice(0));
    OK(cudaEventRecord(back, t));
    OK(cudaStreamWaitEvent(s, back, 0));
    OK(cudaMemcpyPeerAsync(x, 0, y, 1, 64 * sizeof(float), s));
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&instance, g, 0));
    OK(cudaGraphLaunch(instance, s));
    OK(cudaStreamSynchronize(s));
    return same(fetched(x, 64), std::vector<float>(64, 10.0f));
}

static const struct {
    const char *name;
    bool (*holds)();
} cases[] = {
    {"every thread of every block runs once", every_thread_of_every_block},
    {"a kernel has its arguments by value", arguments_by_value},
    {"barriers and shuffles add up a block", barriers_and_shuffles},
    {"__syncwarp separates the lanes of a warp", syncwarp},
    {"doubles shuffle, also within segments and parts of a warp", shuffles_of_doubles},
    {"warps and blocks vote", votes},
    {"clusters of 1 to 16 blocks wait for each other", clusters},
    {"integers have atomics", integer_atomics},
    {"min and max take the number, where the other is NaN", functions},
    {"new memory is NaN", new_memory_is_nan},
    {"large memory is there to its end", large_memory_is_there_to_its_end},
    {"memory runs out, and comes back", memory_runs_out},
    {"a rectangle is set", memset_of_a_rectangle},
    {"copies of pageable memory are done at once", pageable_copies_are_done_at_once},
    {"there are two devices", two_devices},
    {"a kernel reaches the memory of a peer", kernels_reach_peers},
    {"a reset gives back what a device has", a_reset_gives_all_back},
    {"streams wait for each other by events", streams_that_wait},
    {"events are asked, waited for and timed", events},
    {"stream 0 and streams that block wait for each other", stream_0_and_streams_that_block},
    {"a graph is captured and replayed", graphs},
    {"a capture forks to another device and joins", a_capture_of_two_devices},
};

static int run_cases()
{
    int bad = 0;
    for (auto &c : cases)
        if (!c.holds()) {
            printf("# it is not so that %s\n", c.name);
            bad++;
        }
    return bad != 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return run_cases();
    std::string output;
    for (int late = 0; late < 3; late++)
        for (int guard = 0; guard < 2; guard++)
            for (int order = 0; order < 4; order++) {
                std::string how = "CUEMU_LATE=" + std::to_string(late) + " CUEMU_GUARD=" + std::to_string(guard) +
                                  " CUEMU_ORDER=" + std::to_string(order);
                if (!ok(run_self(how, "cases", &output) == 0, "%zu cases, %s", sizeof cases / sizeof *cases,
                        how.c_str()))
                    printf("%s", output.c_str());
            }
    return done();
}
