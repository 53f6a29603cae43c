#include "cuda/nccl.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <thread>
#include <vector>

/* As nccl.h of 2.14 declares them, the first with communicators that do not block; later ones accept it. */
typedef struct ncclComm *ncclComm_t;
struct ncclUniqueId {
    char internal[128];
};
struct ncclConfig_t {
    size_t size;
    unsigned magic, version;
    int blocking;
};
enum { SUCCESS = 0, IN_PROGRESS = 7, FLOAT = 7, MAGIC = (int)0xcafebeef, LEAST = 21400 };

enum { GOODBYE = 5 }; /* s for the others to close, too */

struct mf_nccl {
    void *library;
    int (*get_version)(int *version);
    int (*get_id)(ncclUniqueId *id);
    int (*init)(ncclComm_t *comm, int n, ncclUniqueId id, int me, ncclConfig_t *config);
    int (*state)(ncclComm_t comm, int *result);
    int (*finalize)(ncclComm_t comm);
    int (*destroy)(ncclComm_t comm);
    int (*abort)(ncclComm_t comm);
    int (*start)(void);
    int (*end)(void);
    int (*broadcast)(const void *from, void *to, size_t n, int type, int root, ncclComm_t comm, cudaStream_t stream);
    const char *(*text)(int result);
    const char *(*last)(ncclComm_t comm);
    int version, gpus;
    const struct mf_dev *dev;
    ncclComm_t comm[MF_GPUS]; /* NULL: none yet, or aborted */
    int failed;               /* the first result of a group that is none of success or progress */
};

/* ---- the library ---- */

template <class F> static bool look_up(void *library, const char *name, F *f)
{
    *f = (F)dlsym(library, name);
    return *f != NULL;
}

static bool look_up_all(struct mf_nccl *n)
{
    return look_up(n->library, "ncclGetVersion", &n->get_version) && n->get_version(&n->version) == SUCCESS &&
           n->version >= LEAST && look_up(n->library, "ncclGetUniqueId", &n->get_id) &&
           look_up(n->library, "ncclCommInitRankConfig", &n->init) &&
           look_up(n->library, "ncclCommGetAsyncError", &n->state) &&
           look_up(n->library, "ncclCommFinalize", &n->finalize) &&
           look_up(n->library, "ncclCommDestroy", &n->destroy) && look_up(n->library, "ncclCommAbort", &n->abort) &&
           look_up(n->library, "ncclGroupStart", &n->start) && look_up(n->library, "ncclGroupEnd", &n->end) &&
           look_up(n->library, "ncclBroadcast", &n->broadcast) && look_up(n->library, "ncclGetErrorString", &n->text) &&
           look_up(n->library, "ncclGetLastError", &n->last);
}

struct mf_nccl *mf_nccl_load(struct mf_err *err)
{
    const char *named = getenv("MF_NCCL"), *file = named && *named ? named : "libnccl.so.2";
    struct mf_nccl n = {};
    if (!strcmp(file, "no")) {
        mf_err_set(err, MF_EDEVICE, "MF_NCCL=no");
        return NULL;
    }
    if (!(n.library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))) { /* it has threads */
        mf_err_set(err, MF_EDEVICE, "NCCL cannot be loaded: %.150s", dlerror());
        return NULL;
    }
    if (look_up_all(&n))
        return new mf_nccl(n);
    mf_err_set(err, MF_EDEVICE, "%.150s is NCCL of version %d, and 2.14 (%d) is the oldest", file, n.version, LEAST);
    return NULL;
}

int mf_nccl_version(const struct mf_nccl *n)
{
    return n->version;
}

/* ---- waiting ---- */

static double now(void)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void rest(double waited)
{
    if (waited < 1e-3)
        std::this_thread::yield();
    else
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

static int failure(struct mf_nccl *n, const char *what, int result, struct mf_err *err)
{
    std::string last = n->last(NULL);
    mf_err_set(err, MF_EDEVICE, "NCCL: %s failed: %.120s%s%.200s", what, n->text(result), last.empty() ? "" : "; ",
               last.c_str());
    mf_nccl_abort(n);
    return err->code;
}

/* Perhaps since another has failed: so it is MF_EIO. */
static int overdue(struct mf_nccl *n, const char *what, double most, struct mf_err *err)
{
    mf_err_set(err, MF_EIO, "NCCL: %s did not end within %g s", what, most);
    mf_nccl_abort(n);
    return err->code;
}

/* The first failure; else IN_PROGRESS while a communicator works in a thread of its own; else SUCCESS. */
static int state_of_all(const struct mf_nccl *n)
{
    int all = n->failed;
    for (int g = 0; g < n->gpus && n->comm[g]; g++) {
        int is = SUCCESS, rc = n->state(n->comm[g], &is);
        is = rc == SUCCESS ? is : rc;
        all = all == SUCCESS || (all == IN_PROGRESS && is != SUCCESS) ? is : all;
    }
    return all;
}

static int settle(struct mf_nccl *n, const char *what, double most, struct mf_err *err)
{
    double start = now();
    int is;
    while ((is = state_of_all(n)) == IN_PROGRESS && now() - start < most)
        rest(now() - start);
    if (is == IN_PROGRESS)
        return overdue(n, what, most, err);
    return is == SUCCESS ? 0 : failure(n, what, is, err);
}

/* The result of a call that may go on. */
static void note(struct mf_nccl *n, int result)
{
    if (n->failed == SUCCESS && result != IN_PROGRESS)
        n->failed = result;
}

/* s; then there is time left for the ranks to agree on the failure. */
static double limit(const struct mf_nccl *n)
{
    return n->dev->verbs->patience(n->dev->ranks) / 2;
}

int mf_nccl_wait(struct mf_nccl *n, const cudaEvent_t *event, struct mf_err *err)
{
    double start = now();
    for (int g = 0; g < n->gpus; g++) {
        cudaError_t is;
        cudaSetDevice(n->dev->id[g]);
        while ((is = cudaEventQuery(event[g])) == cudaErrorNotReady) {
            int state = state_of_all(n);
            if (state != SUCCESS && state != IN_PROGRESS)
                return failure(n, "an exchange of gradients", state, err);
            if (now() - start > limit(n))
                return overdue(n, "an exchange of gradients", limit(n), err);
            rest(now() - start);
        }
        if (is != cudaSuccess)
            return mf_cuda_check(n->dev, g, is, "a run", err);
    }
    return 0;
}

/* ---- broadcasts ---- */

void mf_nccl_begin(struct mf_nccl *n)
{
    note(n, n->start());
}

void mf_nccl_broadcast(struct mf_nccl *n, int gpu, int root, float *at, size_t floats, cudaStream_t stream)
{
    if (n->failed == SUCCESS && floats)
        note(n, n->broadcast(at, at, floats, FLOAT, root, n->comm[gpu], stream));
}

int mf_nccl_end(struct mf_nccl *n, struct mf_err *err)
{
    note(n, n->end());
    return settle(n, "an exchange of gradients", limit(n), err);
}

/* ---- communicators ---- */

static int connect(struct mf_nccl *n, ncclUniqueId id, struct mf_err *err)
{
    const struct mf_dev *d = n->dev;
    int first = d->verbs->me(d->ranks) * n->gpus, all = d->verbs->count(d->ranks) * n->gpus;
    ncclConfig_t config = {sizeof config, (unsigned)MAGIC, LEAST, 0};
    note(n, n->start());
    for (int g = 0; n->failed == SUCCESS && g < n->gpus; g++) {
        cudaSetDevice(d->id[g]);
        note(n, n->init(&n->comm[g], all, id, first + g, &config));
    }
    note(n, n->end());
    return settle(n, "connecting the GPUs", limit(n), err);
}

/* Each GPU tells all the others its number. */
static int try_out(struct mf_nccl *n, struct mf_err *err)
{
    const struct mf_dev *d = n->dev;
    int all = d->verbs->count(d->ranks) * n->gpus, first = d->verbs->me(d->ranks) * n->gpus, rc = 0;
    std::vector<float> number(all);
    float *at[MF_GPUS] = {};
    cudaEvent_t event[MF_GPUS] = {};
    for (int i = 0; i < all; i++)
        number[i] = (float)i;
    for (int g = 0; rc == 0 && g < n->gpus; g++) {
        if (!(at[g] = (float *)mf_gpu_take(d, g, all * sizeof(float), "a first exchange", err)))
            rc = err->code;
        cudaError_t is = rc ? cudaSuccess : cudaEventCreateWithFlags(&event[g], cudaEventDisableTiming);
        if (rc == 0 && is == cudaSuccess)
            is = cudaMemsetAsync(at[g], 0, all * sizeof(float), d->stream[g]);
        if (rc == 0 && is == cudaSuccess)
            is = cudaMemcpyAsync(at[g] + first + g, &number[first + g], sizeof(float), cudaMemcpyHostToDevice,
                                 d->stream[g]);
        rc = rc ? rc : mf_cuda_check(d, g, is, "a first exchange", err);
    }
    if (rc == 0) {
        mf_nccl_begin(n);
        for (int i = 0; i < n->gpus * all; i++)
            mf_nccl_broadcast(n, i / all, i % all, at[i / all] + i % all, 1, d->stream[i / all]);
        rc = mf_nccl_end(n, err);
    }
    for (int g = 0; rc == 0 && g < n->gpus; g++) {
        cudaSetDevice(d->id[g]);
        rc = mf_cuda_check(d, g, cudaEventRecord(event[g], d->stream[g]), "a first exchange", err);
    }
    rc = rc ? rc : mf_nccl_wait(n, event, err);
    for (int g = 0; g < n->gpus; g++) {
        std::vector<float> got(all);
        cudaSetDevice(d->id[g]);
        if (rc == 0)
            rc = mf_cuda_check(
                d, g, cudaMemcpyAsync(got.data(), at[g], all * sizeof(float), cudaMemcpyDeviceToHost, d->stream[g]),
                "a first exchange", err);
        if (rc == 0 && (rc = mf_cuda_check(d, g, cudaStreamSynchronize(d->stream[g]), "a first exchange", err)) == 0 &&
            got != number)
            rc = mf_err_set(err, MF_EDEVICE, "NCCL: cuda:%d got other bytes than were sent", d->id[g]);
        if (at[g])
            mf_gpu_give(d, g, at[g]);
        if (event[g])
            cudaEventDestroy(event[g]);
    }
    return rc;
}

/* Whoever failed goes before those that only waited for it. */
static int agree(const struct mf_dev *d, int rc, struct mf_err *err)
{
    struct mf_err late;
    bool waited = rc == MF_EIO;
    if (waited)
        late = *err;
    int failed = d->verbs->agree(d->ranks, waited ? 0 : rc, err);
    if (failed)
        return failed;
    if (waited)
        rc = mf_err_set(err, MF_EDEVICE, "%s", late.text);
    return d->verbs->agree(d->ranks, rc, err);
}

int mf_nccl_join(struct mf_nccl *n, const struct mf_dev *d, struct mf_err *err)
{
    ncclUniqueId id = {};
    int rc = 0;
    n->dev = d;
    n->gpus = d->n_gpus;
    if (d->verbs->me(d->ranks) == 0 && (rc = n->get_id(&id)))
        rc = failure(n, "making an id", rc, err);
    if ((rc = agree(d, rc, err)) || (rc = d->verbs->broadcast(d->ranks, &id, sizeof id, err)) ||
        (rc = agree(d, connect(n, id, err), err)))
        return rc;
    return agree(d, try_out(n, err), err);
}

/* Of communicators that do not block, the last message goes before they close. */
void mf_nccl_close(struct mf_nccl *n)
{
    struct mf_err ignored;
    if (!n)
        return;
    for (int g = 0; g < n->gpus && n->comm[g]; g++)
        note(n, n->finalize(n->comm[g]));
    if (n->comm[0] && settle(n, "closing", GOODBYE, &ignored) == 0)
        for (int g = 0; g < n->gpus; g++)
            n->destroy(n->comm[g]);
    delete n;
}

void mf_nccl_abort(struct mf_nccl *n)
{
    for (int g = 0; g < n->gpus; g++) {
        if (n->comm[g])
            n->abort(n->comm[g]);
        n->comm[g] = NULL;
    }
    n->failed = n->failed ? n->failed : 3; /* ncclInternalError */
}
