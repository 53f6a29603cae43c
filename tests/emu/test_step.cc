/* The step of lib/cuda/step.cu against lib/cpu/step.c: one captured graph takes all steps, in any order of threads. */
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using std::atomic_flag;
using std::atomic_int;
using std::atomic_size_t;
using std::atomic_uint;

#include "cuda/step.h"

extern "C" {
#include "base/rng.h"
#include "cpu/program.h"
}
#include "../unit/tap.h"

enum { N = 3000 }; /* values of the veto, at most */

typedef std::vector<float> floats;

/* Odd pieces of three groups, one of them frozen, from cache line to cache line. */
static const struct {
    int group;
    bool trained;
    size_t floats;
} pieces[] = {{0, true, 1},     {1, true, 17},  {0, true, 4096}, {0, true, 50001}, {4, false, 5003},
              {1, true, 20483}, {0, true, 257}, {1, true, 4097}, {2, true, 12289}, {4, false, 3}};
enum { PIECES = sizeof pieces / sizeof *pieces };

/* Weights, moments and average: those of the cpu device are the vectors, those of the other are on the device. */
struct state {
    floats w, m, v, ema;
    int64_t steps[MF_DEVICE_GROUPS];
};

struct world {
    mf_piece piece[PIECES];
    mf_listing l;
    size_t segment[2]; /* of one rank */
    mf_workers *workers;
    mf_dev cpu;
    mf_program program;
    state host;
    size_t n;
    mf_step step;
    mf_verdict want;

    /* Page-locked, for the graph's copies. */
    float *grads, *veto;
    mf_step_in *in;
    mf_verdict *got;

    mf_step_in *dev_in;
    mf_verdict *dev_verdict;
    float *dev_grads, *dev_veto, *dev_w, *dev_ema;
    mf_steps *steps;
    cudaStream_t stream;
    cudaGraphExec_t graph;
    uint64_t sum; /* over the bits of all that the device has computed */
};

template <class T> static T *on_device(size_t n)
{
    T *p = nullptr;
    if (cudaMalloc((void **)&p, n * sizeof(T)) != cudaSuccess)
        abort();
    return p;
}

template <class T> static T *page_locked(size_t n)
{
    T *p = nullptr;
    if (cudaMallocHost((void **)&p, n * sizeof(T)) != cudaSuccess)
        abort();
    memset((void *)p, 0, n * sizeof(T));
    return p;
}

static void copy(void *to, const void *from, size_t n)
{
    if (cudaMemcpy(to, from, n, cudaMemcpyDefault) != cudaSuccess)
        abort();
}

static float *put_floats(const floats &x)
{
    float *p = on_device<float>(x.size());
    copy(p, x.data(), x.size() * sizeof(float));
    return p;
}

static floats get_floats(const float *from, size_t n)
{
    floats x(n);
    copy(x.data(), from, n * sizeof(float));
    return x;
}

static floats normal(uint64_t seed, size_t n)
{
    mf_rng rng = mf_rng_at(seed, MF_RNG_TEST, 0, 0, 0);
    floats f(n);
    mf_rng_normal(&rng, f.data(), n);
    return f;
}

/* Random numbers in the pieces, 0 between them. */
static floats drawn(const world *x, uint64_t seed, float size)
{
    floats f(x->l.params), all = normal(seed, x->l.params);
    for (const mf_piece &p : x->piece)
        for (size_t i = p.at; i < p.at + p.floats; i++)
            f[i] = size * all[i];
    return f;
}

static void list_pieces(world *x)
{
    x->l = {};
    for (int i = 0; i < PIECES; i++) {
        x->piece[i] = {pieces[i].group, pieces[i].trained, x->l.params, pieces[i].floats};
        x->l.params += mf_whole_lines(pieces[i].floats);
    }
    x->l.n_pieces = PIECES;
    x->l.piece = x->piece;
    x->l.lane = x->l.params;
    x->segment[1] = x->l.params;
    x->l.segment = x->segment;
}

static void open(world *x)
{
    mf_err err;
    list_pieces(x);
    if (mf_workers_new(&x->workers, 1, &err))
        abort();
    x->cpu = {};
    x->cpu.workers = x->workers;
    x->host = {drawn(x, 1, 1), drawn(x, 2, .1f), drawn(x, 3, .1f), drawn(x, 4, 1), {70, 0, 3}};
    for (float &v : x->host.v)
        v *= v;
    x->grads = page_locked<float>(x->l.params);
    x->veto = page_locked<float>(N);
    x->in = page_locked<mf_step_in>(1);
    x->got = page_locked<mf_verdict>(1);
    x->step = {};
    x->dev_ema = put_floats(x->host.ema);
    x->step.of = {put_floats(x->host.m), put_floats(x->host.v), x->dev_ema, on_device<int64_t>(MF_DEVICE_GROUPS)};
    copy(x->step.of.step, x->host.steps, sizeof x->host.steps);
    x->step.beta1 = .9, x->step.beta2 = .999, x->step.eps = 1e-8;
    x->dev_w = put_floats(x->host.w);
    x->dev_grads = on_device<float>(x->l.params);
    x->dev_veto = on_device<float>(N);
    x->dev_in = on_device<mf_step_in>(1);
    x->dev_verdict = on_device<mf_verdict>(1);
    x->sum = 14695981039346656037u;

    cudaGraph_t graph;
    x->l.weights = x->host.w.data();
    cudaStreamCreate(&x->stream);
    if (mf_steps_new(&x->steps, &x->l, x->dev_w, x->stream) != cudaSuccess)
        abort();
    cudaStreamBeginCapture(x->stream, cudaStreamCaptureModeThreadLocal);
    cudaMemcpyAsync(x->dev_in, x->in, sizeof *x->in, cudaMemcpyHostToDevice, x->stream);
    cudaMemcpyAsync(x->dev_grads, x->grads, x->l.params * sizeof(float), cudaMemcpyHostToDevice, x->stream);
    cudaMemcpyAsync(x->dev_veto, x->veto, N * sizeof(float), cudaMemcpyHostToDevice, x->stream);
    cudaError_t rc = mf_steps_step(x->steps, x->dev_in, x->dev_verdict, x->dev_grads, x->dev_veto, x->stream);
    cudaMemcpyAsync(x->got, x->dev_verdict, sizeof *x->got, cudaMemcpyDeviceToHost, x->stream);
    cudaStreamEndCapture(x->stream, &graph);
    cudaGraphInstantiate(&x->graph, graph, 0);
    cudaGraphDestroy(graph);
    if (rc != cudaSuccess)
        abort();
    x->program.dev = &x->cpu;
    x->program.l = &x->l;
    x->program.sum = x->grads;
    x->program.veto = x->veto;
}

static void close(world *x)
{
    mf_steps_free(x->steps);
    mf_workers_free(x->workers);
    for (void *p :
         {(void *)x->step.of.m, (void *)x->step.of.v, (void *)x->dev_ema, (void *)x->step.of.step, (void *)x->dev_w,
          (void *)x->dev_grads, (void *)x->dev_veto, (void *)x->dev_in, (void *)x->dev_verdict})
        cudaFree(p);
    for (void *p : {(void *)x->grads, (void *)x->veto, (void *)x->in, (void *)x->got})
        cudaFreeHost(p);
    cudaGraphExecDestroy(x->graph);
    cudaStreamDestroy(x->stream);
}

static state from_device(const world *x)
{
    size_t n = x->l.params;
    state s = {get_floats(x->dev_w, n),
               get_floats(x->step.of.m, n),
               get_floats(x->step.of.v, n),
               get_floats(x->dev_ema, n),
               {}};
    copy(s.steps, x->step.of.step, sizeof s.steps);
    return s;
}

static void mix(world *x, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x->sum = (x->sum ^ ((const unsigned char *)p)[i]) * 1099511628211u;
}

/* One step by both. */
static state take(world *x)
{
    mf_job job = {};
    mf_batch batch = {};
    mf_step mine = x->step;
    mine.of = {x->host.m.data(), x->host.v.data(), x->step.of.ema ? x->host.ema.data() : NULL, x->host.steps};
    batch.n = x->n;
    job.batch = &batch, job.step = &mine, job.verdict = &x->want;
    mf_err err;
    if (mf_cpu_step(&x->program, &job, &err))
        abort();

    *x->in = {x->step, x->n};
    cudaGraphLaunch(x->graph, x->stream);
    cudaStreamSynchronize(x->stream);
    state s = from_device(x);
    for (const floats *f : {&s.w, &s.m, &s.v, &s.ema})
        mix(x, f->data(), f->size() * sizeof(float));
    mix(x, x->got->norm, sizeof x->got->norm);
    mix(x, &x->got->total, sizeof x->got->total);
    mix(x, &x->got->veto, sizeof x->got->veto);
    return s;
}

static double apart(const floats &a, const floats &b)
{
    double worst = 0;
    for (size_t i = 0; i < a.size(); i++) {
        double gap = fabs((double)a[i] - (double)b[i]) / (1 + fabs((double)b[i]));
        worst = gap <= worst ? worst : gap; /* NaN counts */
    }
    return worst;
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-13 * fabs(b) || (std::isnan(a) && std::isnan(b));
}

/* Both have come to the same; within: of weights and moments. */
static bool agrees(const world *x, const state &s, double within)
{
    bool good = close_to(x->got->total, x->want.total) && close_to(x->got->veto, x->want.veto) &&
                x->got->finite == x->want.finite && x->got->vetoed == x->want.vetoed &&
                x->got->stepped == x->want.stepped && !memcmp(s.steps, x->host.steps, sizeof s.steps);
    for (int g = 0; g < MF_DEVICE_GROUPS; g++)
        good = good && close_to(x->got->norm[g], x->want.norm[g]);
    double worst = fmax(fmax(apart(s.w, x->host.w), apart(s.m, x->host.m)),
                        fmax(apart(s.v, x->host.v), apart(s.ema, x->host.ema)));
    if (!good || !(worst <= within))
        printf("# norms %.17g and %.17g, veto %.17g and %.17g; apart by %g\n", x->got->total, x->want.total,
               x->got->veto, x->want.veto, worst);
    return good && worst <= within;
}

static bool same(const state &a, const state &b)
{
    return a.w == b.w && a.m == b.m && a.v == b.v && a.ema == b.ema && !memcmp(a.steps, b.steps, sizeof a.steps);
}

static void steps(world *x)
{
    const floats grads = drawn(x, 5, 1);
    std::copy(grads.begin(), grads.end(), x->grads);
    for (const mf_piece &p : x->piece) /* no gradient reaches what is frozen */
        for (size_t i = p.at; !p.trained && i < p.at + p.floats; i++)
            x->grads[i] = 0;
    for (int g : {0, 1, 2, 4})
        x->step.lr[g] = 1e-2 * (g + 1);
    x->step.weight_decay = .1, x->step.ema_decay = .75, x->step.averaged = 1 | 1 << 4;
    x->step.first = true;
    state s = take(x);
    ok(agrees(x, s, 0) && x->got->stepped && x->got->total > 300 && s.steps[0] == 71 && s.steps[1] == 1,
       "AdamW and the average of two groups: the bits of the cpu");
    state before = s;
    x->step.max_norm = 1;
    s = take(x);
    ok(agrees(x, s, 2e-7) && !same(before, s), "clipped by the norm over all");
    x->step.separate = true;
    x->step.max_norm = .5 * x->got->norm[0]; /* below that of groups 0 and 1 alone */
    s = take(x);
    ok(agrees(x, s, 2e-7) && x->got->norm[2] < x->step.max_norm && x->got->norm[1] > x->step.max_norm,
       "clipped by the norm of each group");

    x->step.veto.id = 1, x->step.most = 1, x->n = N - 7;
    const floats veto = normal(6, N);
    std::copy(veto.begin(), veto.end(), x->veto);
    x->veto[11] += 200;
    before = s;
    s = take(x);
    ok(agrees(x, s, 2e-7) && x->got->vetoed && same(before, s), "a veto changes nothing");
    x->veto[11] -= 400;
    x->step.first = false;
    s = take(x);
    ok(agrees(x, s, 2e-7) && x->got->vetoed && x->got->veto < 0 && same(before, s),
       "and holds for the steps behind it");
    x->step.veto = MF_NONE;
    s = take(x);
    ok(agrees(x, s, 2e-7) && x->got->vetoed && same(before, s), "those without a veto, too");
    x->step.first = true, x->step.veto.id = 1;
    s = take(x);
    ok(agrees(x, s, 2e-7) && x->got->stepped && !same(before, s), "until the next update begins");
    x->veto[N - 7] = NAN; /* of no sample */
    s = take(x);
    ok(agrees(x, s, 2e-7) && x->got->stepped, "the veto's sum reads the samples alone");

    x->grads[x->piece[8].at + 4099] = NAN;
    before = s;
    s = take(x);
    ok(agrees(x, s, 2e-7) && !x->got->finite && same(before, s), "a gradient that is no number changes nothing");
    x->grads[x->piece[8].at + 4099] = 1;

    x->step.lr[1] = 0, x->step.averaged = 1 << 1, x->step.first = false;
    before = s;
    s = take(x);
    const mf_piece &still = x->piece[5];
    size_t bytes = still.floats * sizeof(float);
    ok(agrees(x, s, 2e-7) && x->got->stepped && s.steps[1] == before.steps[1] &&
           !memcmp(&s.w[still.at], &before.w[still.at], bytes) && !memcmp(&s.m[still.at], &before.m[still.at], bytes) &&
           memcmp(&s.ema[still.at], &before.ema[still.at], bytes) && s.w[x->piece[3].at] != before.w[x->piece[3].at],
       "rate 0 leaves a group as it is, and its average goes on");
    for (int i = 0; i < 5; i++) {
        x->grads[x->piece[3].at + i] = (float)i;
        s = take(x);
    }
    ok(agrees(x, s, 2e-6), "five steps more");
    x->step.of.ema = NULL;
    before = s;
    s = take(x);
    ok(agrees(x, s, 2e-6) && s.ema == before.ema && s.w != before.w, "without an average");
}

enum { LANES = 43, FLOATS = 1237, STRIDE = 1248 };

/* Lanes [first, end), in pairs, pairs in pairs. */
static float tree(const floats &lanes, int i, int first, int end)
{
    int half = 1;
    if (end - first == 1)
        return lanes[first * STRIDE + i];
    while (2 * half < end - first)
        half *= 2;
    return tree(lanes, i, first, first + half) + tree(lanes, i, first + half, end);
}

/* The lanes of each part become rows, which are then summed. */
static floats sum_in_parts(world *x, const floats &lanes, int n, int parts)
{
    float *from = put_floats(lanes), *to = on_device<float>(STRIDE);
    mf_rows rows = 0;
    for (int p = 0; p < parts; p++)
        rows |= mf_rows_of(p * n / parts, (p + 1) * n / parts);
    for (int l = 0, lanes; l < n; l += lanes) {
        float *row = from + l * STRIDE;
        lanes = mf_rows_lanes(rows, l, n);
        mf_lanes_sum(row, row, STRIDE, mf_rows_single(lanes), FLOATS, x->stream);
    }
    mf_lanes_sum(to, from, STRIDE, rows, FLOATS, x->stream);
    cudaStreamSynchronize(x->stream);
    floats got = get_floats(to, FLOATS);
    mix(x, got.data(), FLOATS * sizeof(float));
    cudaFree(from);
    cudaFree(to);
    return got;
}

static void sums_of_lanes(world *x)
{
    const floats lanes = normal(8, LANES * STRIDE);
    bool good = true;
    for (int n : {1, 2, 7, 8, 13, (int)LANES}) {
        floats want(FLOATS);
        for (int i = 0; i < FLOATS; i++)
            want[i] = tree(lanes, i, 0, n);
        for (int parts : {1, 2, 3, 8, 16})
            good = good && sum_in_parts(x, lanes, n, parts) == want;
    }
    ok(good, "lanes are summed in pairs, pairs in pairs, whoever has summed parts of them");
}

/* All of it, in one order of threads and blocks; the bits that came of it. */
static uint64_t run(void)
{
    static world x;
    open(&x);
    steps(&x);
    sums_of_lanes(&x);
    close(&x);
    return x.sum;
}

static uint64_t run_in_order(const char *order)
{
    int pipe_of[2];
    uint64_t sum = 0;
    fflush(stdout);
    if (pipe(pipe_of))
        abort();
    pid_t child = fork();
    if (child == 0) {
        setenv("CUEMU_ORDER", order, 1);
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        sum = run();
        _exit(write(pipe_of[1], &sum, sizeof sum) != sizeof sum);
    }
    close(pipe_of[1]);
    bool good = read(pipe_of[0], &sum, sizeof sum) == sizeof sum;
    close(pipe_of[0]);
    int status;
    waitpid(child, &status, 0);
    return good && status == 0 ? sum : 0;
}

int main(void)
{
    uint64_t sum[4];
    for (int i = 0; i < 4; i++)
        sum[i] = run_in_order((const char *[]){"0", "1", "2", "3"}[i]);
    run();
    ok(sum[0] && sum[1] == sum[0] && sum[2] == sum[0] && sum[3] == sum[0],
       "the same bits in any order of threads and blocks");
    return done();
}
