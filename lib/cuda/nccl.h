/* nccl.h - NVIDIA's library of collectives (NCCL), by which GPUs of several ranks send each other gradients. It is
 * looked for when ranks join: neither a build nor a run needs it. Only broadcasts are used, which move bytes and add
 * nothing: so results have the same bits as by any other way.
 *
 * Nothing waits here for ever: communicators are non-blocking, and one that takes longer than the ranks' patience is
 * aborted. After a failure all that is left is mf_nccl_close.
 */
#ifndef MF_CUDA_NCCL_H
#define MF_CUDA_NCCL_H

#include "cuda/cuda.h"

struct mf_nccl;

/* The library: $MF_NCCL, else libnccl.so.2 as the loader finds it; MF_NCCL=no: none. NULL: *err says why. */
struct mf_nccl *mf_nccl_load(struct mf_err *err);
int mf_nccl_version(const struct mf_nccl *n); /* as NCCL_VERSION_CODE */
/* Makes a communicator for each GPU of d, all ranks together, and tries it. The error is the same in all. MF_EDEVICE:
 * NCCL cannot do it here; else as verbs fail. */
int mf_nccl_join(struct mf_nccl *n, const struct mf_dev *d, struct mf_err *err);
void mf_nccl_close(struct mf_nccl *n); /* NULL: nothing */
/* Ends what is under way on the GPUs, and all that is enqueued later fails. */
void mf_nccl_abort(struct mf_nccl *n);

/* Broadcasts between begin and end, in the same order in all ranks: of a GPU of this process, floats in the place where
 * it has them as number `root` among the GPUs of all ranks, or gets them. */
void mf_nccl_begin(struct mf_nccl *n);
void mf_nccl_broadcast(struct mf_nccl *n, int gpu, int root, float *at, size_t floats, cudaStream_t stream);
int mf_nccl_end(struct mf_nccl *n, struct mf_err *err);
/* Waits for events, one of each GPU, behind which broadcasts are under way. */
int mf_nccl_wait(struct mf_nccl *n, const cudaEvent_t *event, struct mf_err *err);

#endif
