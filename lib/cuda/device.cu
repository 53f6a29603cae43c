/* device.cu - opening GPUs, their memory, and transfers. */
#include "cuda/cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/nccl.h"
#include "cuda/nvml.h"

extern "C" {
#include "dev/plugin.h"
#include "ranks/ranks.h"
}

int mf_cuda_check(const struct mf_dev *d, int gpu, cudaError_t rc, const char *what, struct mf_err *err)
{
    if (rc == cudaSuccess)
        return 0;
    cudaGetLastError(); /* forgotten, where it can be: a later call is not told of it again */
    return mf_err_set(err, rc == cudaErrorMemoryAllocation ? MF_ENOMEM : MF_EDEVICE, "cuda:%d: %s failed: %s",
                      d->id[gpu], what, cudaGetErrorString(rc));
}

/* ---- opening ---- */

/* "1", "0-3": the numbers of GPUs. "": that of this process on its host, where mpirun or srun started several. A
 * launcher may show each its own GPU alone, which is then number 0. */
static int parse(struct mf_dev *d, const char *which, struct mf_err *err)
{
    const char *at = which;
    char *end;
    int count;
    if (!*which) {
        bool several = cudaGetDeviceCount(&count) == cudaSuccess && count > 1;
        d->id[d->n_gpus++] = several ? mf_ranks_local() % count : 0;
        return 0;
    }
    long first = strtol(at, &end, 10), last = first;
    bool good = end != at;
    if (good && *end == '-') {
        at = end + 1;
        last = strtol(at, &end, 10);
        good = end != at;
    }
    if (!good || *end || first < 0 || last < first || last - first >= MF_GPUS)
        return mf_err_set(err, MF_EUSAGE, "device=cuda:%.40s: give the number of a GPU, or of at most %d as cuda:0-3",
                          which, MF_GPUS);
    for (long i = first; i <= last; i++)
        d->id[d->n_gpus++] = (int)i;
    return 0;
}

/* All GPUs are there, and of one model: the bits of the results are a model's. */
static int look(struct mf_dev *d, const char *which, struct mf_err *err)
{
    int count = 0, driver = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);
    if (rc == cudaErrorInsufficientDriver)
        return mf_err_set(err, MF_EUSAGE,
                          "device=cuda: this machine has no NVIDIA driver, or an old one; take "
                          "device=cpu");
    if (rc != cudaSuccess || count == 0)
        return mf_err_set(err, MF_EUSAGE, "device=cuda: this machine has no usable GPU (%s); take device=cpu",
                          cudaGetErrorString(rc));
    cudaDeviceProp first = {}, p = {};
    for (int i = 0; i < d->n_gpus; i++) {
        if (d->id[i] >= count)
            return mf_err_set(err, MF_EUSAGE, "device=cuda:%.40s: there is no GPU %d; this machine has %d, from 0",
                              which, d->id[i], count);
        if ((rc = cudaGetDeviceProperties(&p, d->id[i])) != cudaSuccess)
            return mf_cuda_check(d, i, rc, "reading its properties", err);
        if (i && strcmp(first.name, p.name))
            return mf_err_set(err, MF_EUSAGE, "device=cuda:%.40s: GPU %d is a %s, GPU %d a %s; take GPUs of one model",
                              which, d->id[0], first.name, d->id[i], p.name);
        if (p.major < 8)
            return mf_err_set(err, MF_EUSAGE,
                              "device=cuda:%d: a %s has compute capability %d.%d, and 8.0 is the least; take "
                              "device=cpu",
                              d->id[i], p.name, p.major, p.minor);
        d->few = d->few && p.major >= 9; /* clusters */
        first = i ? first : p;
    }
    cudaDriverGetVersion(&driver);
    char text[400], several[32] = "";
    if (d->n_gpus > 1)
        snprintf(several, sizeof several, "%d GPUs: ", d->n_gpus);
    snprintf(text, sizeof text, "%s%.300s, %.0f GiB, driver for CUDA %d.%d", several, first.name,
             (double)first.totalGlobalMem / (1 << 30), driver / 1000, driver % 1000 / 10);
    d->description = text;
    return 0;
}

static int start(struct mf_dev *d, struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < d->n_gpus; i++) {
        rc = mf_cuda_check(d, i, cudaSetDevice(d->id[i]), "opening it", err);
        for (int j = 0; rc == 0 && j < d->n_gpus; j++)
            if (j != i) {
                cudaError_t peer = cudaDeviceEnablePeerAccess(d->id[j], 0);
                if (peer != cudaSuccess)
                    cudaGetLastError(); /* copies between the two then go through the host */
            }
        if (rc == 0)
            rc = mf_cuda_check(d, i, cudaStreamCreateWithFlags(&d->stream[i], cudaStreamNonBlocking),
                               "opening a stream", err);
    }
    return rc;
}

static void close_cuda(struct mf_dev *d)
{
    mf_nccl_close(d->nccl);
    for (int i = 0; i < d->n_gpus; i++)
        if (d->stream[i]) {
            cudaSetDevice(d->id[i]);
            cudaStreamDestroy(d->stream[i]);
        }
    mf_nvml_close(d->nvml);
    delete d;
}

/* Environment variables to debug with turn parts of the device off. */
static bool allowed(const char *name)
{
    const char *text = getenv(name);
    return !text || strcmp(text, "no");
}

static int open_cuda(struct mf_dev **out, const char *which, struct mf_workers *workers, enum mf_precision precision,
                     struct mf_err *err)
{
    struct mf_dev *d = new mf_dev();
    int rc;
    (void)workers;
    d->precision = precision;
    d->nvml = mf_nvml_open();
    d->graphs = allowed("MF_CUDA_GRAPHS"); /* else every run is enqueued kernel by kernel */
    d->fuses = allowed("MF_CUDA_FUSE");    /* else each call has a launch of its own */
    d->few = d->fuses;
    if ((rc = parse(d, which, err)) || (rc = look(d, which, err)) || (rc = start(d, err)))
        close_cuda(d);
    else
        *out = d;
    return rc;
}

static const char *describe(const struct mf_dev *d)
{
    return d->description.c_str();
}

/* ---- memory ---- */

void *mf_gpu_take(const struct mf_dev *d, int gpu, size_t bytes, const char *what, struct mf_err *err)
{
    void *p = NULL;
    cudaSetDevice(d->id[gpu]);
    cudaError_t rc = cudaMalloc(&p, bytes ? bytes : 1);
    if (rc == cudaSuccess)
        return p;
    size_t left = 0, all = 0;
    mf_cuda_check(d, gpu, rc, "an allocation", err); /* perhaps of a kernel before it */
    if (rc == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &all) == cudaSuccess)
        mf_err_set(err, MF_ENOMEM, "CUDA out of memory: cuda:%d has %zu MiB left of %zu, and %s need %zu", d->id[gpu],
                   left >> 20, all >> 20, what, (bytes >> 20) + 1);
    return NULL;
}

void mf_gpu_give(const struct mf_dev *d, int gpu, void *p)
{
    cudaSetDevice(d->id[gpu]);
    cudaFree(p);
}

static void give_copies(const struct mf_dev *d, const mf_copies *c)
{
    for (int i = 0; i < d->n_gpus; i++)
        if (c->at[i])
            mf_gpu_give(d, i, c->at[i]);
}

static int take_copies(const struct mf_dev *d, mf_copies *c, size_t floats, const char *what, struct mf_err *err)
{
    *c = {};
    c->floats = floats;
    for (int i = 0; i < d->n_gpus; i++)
        if (!(c->at[i] = (float *)mf_gpu_take(d, i, floats * sizeof(float), what, err))) {
            give_copies(d, c);
            return err->code;
        }
    return 0;
}

static float *find(const std::map<const float *, mf_copies> &all, int gpu, const float *p)
{
    auto after = all.upper_bound(p);
    if (after == all.begin())
        return NULL;
    const auto &it = *--after;
    size_t offset = (size_t)(p - it.first);
    return offset < it.second.floats || (offset == 0 && it.second.floats == 0) ? it.second.at[gpu] + offset : NULL;
}

float *mf_on_gpu(const struct mf_dev *d, int gpu, const float *p)
{
    return gpu ? find(d->taken, gpu, p) : const_cast<float *>(p);
}

float *mf_held_on_gpu(const struct mf_dev *d, int gpu, const float *p)
{
    return find(d->held, gpu, p);
}

static float *take(struct mf_dev *d, float *host, size_t floats, const char *what, struct mf_err *err)
{
    mf_copies c;
    (void)host;
    if (take_copies(d, &c, floats, what, err))
        return NULL;
    d->taken[c.at[0]] = c;
    return c.at[0];
}

static void give(struct mf_dev *d, float *p, float *host, size_t floats)
{
    (void)host, (void)floats;
    auto it = d->taken.find(p);
    give_copies(d, &it->second);
    d->taken.erase(it);
}

/* Copies from the host, or from each GPU's own copy of `from`, to all GPUs, and waits for it. */
static int send(struct mf_dev *d, const float *to, const float *from, bool from_host, size_t floats, const char *what,
                struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < d->n_gpus; i++) {
        cudaSetDevice(d->id[i]);
        rc = mf_cuda_check(d, i,
                           cudaMemcpyAsync(mf_on_gpu(d, i, to), from_host ? from : mf_on_gpu(d, i, from),
                                           floats * sizeof(float),
                                           from_host ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice, d->stream[i]),
                           what, err);
    }
    for (int i = 0; rc == 0 && i < d->n_gpus; i++) {
        cudaSetDevice(d->id[i]);
        rc = mf_cuda_check(d, i, cudaStreamSynchronize(d->stream[i]), what, err);
    }
    return rc;
}

static int put(struct mf_dev *d, float *to, const float *host, size_t floats, struct mf_err *err)
{
    return send(d, to, host, true, floats, "a transfer to it", err);
}

static int copy(struct mf_dev *d, float *to, const float *from, size_t floats, struct mf_err *err)
{
    return send(d, to, from, false, floats, "a copy", err);
}

static int get(struct mf_dev *d, float *host, const float *from, size_t floats, struct mf_err *err)
{
    cudaSetDevice(d->id[0]);
    int rc =
        mf_cuda_check(d, 0, cudaMemcpyAsync(host, from, floats * sizeof(float), cudaMemcpyDeviceToHost, d->stream[0]),
                      "a transfer from it", err);
    return rc ? rc : mf_cuda_check(d, 0, cudaStreamSynchronize(d->stream[0]), "a transfer from it", err);
}

static int hold(struct mf_dev *d, const float *base, size_t floats, struct mf_err *err)
{
    mf_copies c;
    int rc = take_copies(d, &c, floats, "a round's rows", err);
    for (int i = 0; rc == 0 && i < d->n_gpus; i++) {
        cudaSetDevice(d->id[i]);
        rc = mf_cuda_check(d, i,
                           cudaMemcpyAsync(c.at[i], base, floats * sizeof(float), cudaMemcpyHostToDevice, d->stream[i]),
                           "a transfer of a round's rows", err);
        if (rc == 0)
            rc = mf_cuda_check(d, i, cudaStreamSynchronize(d->stream[i]), "a transfer of a round's rows", err);
    }
    if (rc)
        give_copies(d, &c);
    else
        d->held[base] = c;
    return rc;
}

static void let_go(struct mf_dev *d, const float *base)
{
    auto it = d->held.find(base);
    if (it == d->held.end())
        return;
    give_copies(d, &it->second);
    d->held.erase(it);
}

/* The GPUs' memory together, and the mean of what is known of their utilisation. */
static int usage(const struct mf_dev *d, struct mf_device_usage *u)
{
    int known = 0;
    *u = {};
    for (int i = 0; i < d->n_gpus; i++) {
        size_t left = 0, all = 0;
        double utilisation = mf_nvml_utilisation(d->nvml, d->id[i]);
        cudaSetDevice(d->id[i]);
        cudaMemGetInfo(&left, &all);
        u->used += (double)(all - left);
        u->total += (double)all;
        u->utilisation += utilisation < 0 ? 0 : utilisation;
        known += utilisation >= 0;
    }
    u->utilisation = known ? u->utilisation / known : -1;
    return 1;
}

static const struct mf_device cuda = [] {
    struct mf_device t = {};
    t.name = "cuda";
    t.ahead = 2;
    t.divides = true;
    t.own_memory = true;
    t.open = open_cuda;
    t.close = close_cuda;
    t.join = mf_cuda_join;
    t.describe = describe;
    t.usage = usage;
    t.take = take;
    t.give = give;
    t.put = put;
    t.get = get;
    t.copy = copy;
    t.hold = hold;
    t.let_go = let_go;
    t.samples = mf_cuda_samples;
    t.compile = mf_cuda_compile;
    t.forget = mf_cuda_forget;
    t.memory = mf_cuda_memory;
    t.ranks = mf_cuda_ranks;
    t.set = mf_cuda_set;
    t.start = mf_cuda_start;
    t.finish = mf_cuda_finish;
    t.grads = mf_cuda_grads;
    return t;
}();

extern "C" const struct mf_plugin mf_plugin = {MF_VERSION, &cuda, MF_PLUGIN_SIZES};
