/* cuda.h - an opened device: one GPU or several, which hold the same weights and share the samples of a run (private to
 * lib/cuda).
 */
#ifndef MF_CUDA_CUDA_H
#define MF_CUDA_CUDA_H

#include <map>
#include <string>

#include "cuda/kernel.h"

extern "C" {
#include "base/err.h"
}

enum { MF_GPUS = 16 };

/* The same floats on every GPU. */
struct mf_copies {
    float *at[MF_GPUS];
    size_t floats;
};

struct mf_dev {
    int n_gpus, id[MF_GPUS];
    cudaStream_t stream[MF_GPUS];
    enum mf_precision precision;
    bool graphs; /* runs are recorded and replayed */
    bool fuses;  /* consecutive calls */
    bool few;    /* runs of few samples in one launch (few.h) */
    std::string description;
    struct mf_nvml *nvml;                     /* or NULL */
    struct mf_ranks *ranks;                   /* that it has joined; NULL: none */
    const struct mf_ranks_verbs *verbs;       /* of ranks */
    struct mf_nccl *nccl;                     /* carries what ranks exchange; NULL: the host does */
    std::string exchange;                     /* how, in words */
    std::map<const float *, mf_copies> taken; /* by the address on the first GPU, the one that the engine knows */
    std::map<const float *, mf_copies> held;  /* by the address on the host */
};

/* The address on a GPU of what the engine knows as p. */
float *mf_on_gpu(const struct mf_dev *d, int gpu, const float *p);
/* The address on a GPU of what the host holds at p; NULL: it is not held. */
float *mf_held_on_gpu(const struct mf_dev *d, int gpu, const float *p);

/* Memory of one GPU, whose contents are undefined. NULL: *err, which names `what`. */
void *mf_gpu_take(const struct mf_dev *d, int gpu, size_t bytes, const char *what, struct mf_err *err);
void mf_gpu_give(const struct mf_dev *d, int gpu, void *p);

/* 0, or the code of *err: what the GPU was doing ("a transfer of weights"), and CUDA's own words. */
int mf_cuda_check(const struct mf_dev *d, int gpu, cudaError_t rc, const char *what, struct mf_err *err);

/* join.cu */
int mf_cuda_join(struct mf_dev *d, struct mf_ranks *ranks, const struct mf_ranks_verbs *verbs, const char **how,
                 struct mf_err *err);

/* program.cu */
int mf_cuda_compile(struct mf_program **p, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err);
void mf_cuda_forget(struct mf_program *p);
void mf_cuda_memory(const struct mf_program *p, size_t n, struct mf_memory *to);
void mf_cuda_ranks(const struct mf_program *p, size_t n, int *of); /* exchange.cu */
int mf_cuda_set(struct mf_program *p, int value, const float *host, struct mf_err *err);
int mf_cuda_start(struct mf_program *p, const struct mf_job *j, struct mf_err *err);
int mf_cuda_finish(struct mf_program *p, struct mf_err *err);
const float *mf_cuda_grads(struct mf_program *p);
int mf_cuda_samples(const struct mf_dev *d, size_t floats);

#endif
