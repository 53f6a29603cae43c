/* exchange.cu - what GPUs compute for each other. Those of one process copy from each other; those of several processes
 * (ranks) send it by NCCL, or by way of the hosts' memory, in which a rank gathers what the others have.
 */
#include "cuda/nccl.h"
#include "cuda/program.h"

#include <algorithm>
#include <cstring>

/* ---- what is whose ---- */

struct sample_span { /* of a run of n */
    size_t first, end;
};

/* Of the wave that begins with `first`, those of lanes [lane, end). */
static struct sample_span samples_of(const mf_program *p, size_t n, size_t first, int lane, int end)
{
    size_t samples = std::min(n - first, mf_program_wave(p)), each = (samples + p->lanes - 1) / p->lanes;
    return {first + std::min(lane * each, samples), first + std::min(end * each, samples)};
}

static struct sample_span samples_of(const mf_program *p, size_t n, size_t first, const mf_gpu_part *q)
{
    return samples_of(p, n, first, q->lane, q->lane + q->lanes);
}

/* The first lane of a rank; `ranks`: behind the last. */
static int lane_of_rank(const mf_program *p, int rank)
{
    return mf_program_first_lane(p, rank * p->dev->n_gpus);
}

void mf_cuda_ranks(const struct mf_program *p, size_t n, int *of)
{
    for (size_t first = 0; first < n; first += mf_program_wave(p))
        for (int k = 0; k < p->ranks; k++) {
            struct sample_span s = samples_of(p, n, first, lane_of_rank(p, k), lane_of_rank(p, k + 1));
            std::fill(of + s.first, of + s.end, k);
        }
}

/* ---- GPUs of this process ---- */

static cudaError_t copy_from(const mf_program *p, const mf_gpu_part *to, const mf_gpu_part *from, size_t n,
                             bool with_veto)
{
    int there = p->dev->id[to->gpu], here = p->dev->id[from->gpu];
    cudaError_t rc = cudaStreamWaitEvent(to->stream, from->done, 0);
    for (int l = from->lane; rc == cudaSuccess && l < from->lane + from->lanes; l++)
        if (p->rows >> l & 1)
            rc = cudaMemcpyPeerAsync(to->lane_room + l * p->lane, there, from->lane_room + l * p->lane, here,
                                     p->lane * sizeof(float), to->stream);
    for (size_t first = 0; rc == cudaSuccess && with_veto && first < n; first += mf_program_wave(p)) {
        struct sample_span s = samples_of(p, n, first, from);
        if (s.first < s.end)
            rc = cudaMemcpyPeerAsync(to->veto + s.first, there, from->veto + s.first, here,
                                     (s.end - s.first) * sizeof(float), to->stream);
    }
    return rc;
}

static int record_all(const mf_program *p, cudaEvent_t mf_gpu_part::*event, struct mf_err *err)
{
    int rc = 0;
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        cudaSetDevice(p->dev->id[g]);
        rc = mf_cuda_check(p->dev, g, cudaEventRecord(p->part[g].*event, p->part[g].stream), "an event", err);
    }
    return rc;
}

/* What the GPUs do from now on comes after what each of them has been given. */
static int join_streams(const mf_program *p, struct mf_err *err)
{
    int rc = record_all(p, &mf_gpu_part::met, err), gpus = p->dev->n_gpus;
    for (int i = 0; rc == 0 && i < gpus * gpus; i++) {
        int g = i / gpus, h = i % gpus;
        cudaSetDevice(p->dev->id[g]);
        if (g != h)
            rc = mf_cuda_check(p->dev, g, cudaStreamWaitEvent(p->part[g].stream, p->part[h].met, 0), "an event", err);
    }
    return rc;
}

/* A GPU's lanes may be overwritten when the others have them. */
static int exchange_here(mf_program *p, size_t n, bool with_veto, struct mf_err *err)
{
    int rc = record_all(p, &mf_gpu_part::done, err), gpus = p->dev->n_gpus;
    for (int i = 0; rc == 0 && i < gpus * gpus; i++) {
        int g = i / gpus, h = i % gpus;
        cudaSetDevice(p->dev->id[g]);
        if (g != h)
            rc = mf_cuda_check(p->dev, g, copy_from(p, &p->part[g], &p->part[h], n, with_veto),
                               "an exchange of gradients", err);
    }
    return rc ? rc : join_streams(p, err);
}

/* ---- ranks ---- */

size_t mf_program_staged(const mf_program *p, size_t n)
{
    return p->ranks > 1 && !p->dev->nccl ? (mf_rows_before(p->rows, p->lanes) * p->lane + n) * sizeof(float) : 0;
}

/* Rows one after the other, then the values of the veto. */
static float *staged_row(const mf_program *p, int lane)
{
    return (float *)p->staged + mf_rows_before(p->rows, lane) * p->lane;
}

/* This GPU's rows and values (out), or those of all others. */
static cudaError_t carry(const mf_program *p, const mf_gpu_part *q, size_t n, bool with_veto, bool out)
{
    cudaError_t rc = cudaSuccess;
    float *veto = staged_row(p, p->lanes);
    for (int l = 0; rc == cudaSuccess && l < p->lanes; l++) {
        bool own = l >= q->lane && l < q->lane + q->lanes;
        float *here = q->lane_room + l * p->lane, *there = staged_row(p, l);
        if (own == out && p->rows >> l & 1)
            rc = cudaMemcpyAsync(out ? there : here, out ? here : there, p->lane * sizeof(float),
                                 out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, q->stream);
    }
    for (size_t first = 0; rc == cudaSuccess && with_veto && out && first < n; first += mf_program_wave(p)) {
        struct sample_span s = samples_of(p, n, first, q);
        rc = cudaMemcpyAsync(veto + s.first, q->veto + s.first, (s.end - s.first) * sizeof(float),
                             cudaMemcpyDeviceToHost, q->stream);
    }
    if (rc == cudaSuccess && with_veto && !out)
        rc = cudaMemcpyAsync(q->veto, veto, n * sizeof(float), cudaMemcpyHostToDevice, q->stream);
    return rc;
}

static int carry_all(const mf_program *p, size_t n, bool with_veto, bool out, struct mf_err *err)
{
    int rc = 0;
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        cudaSetDevice(p->dev->id[g]);
        rc = mf_cuda_check(p->dev, g, carry(p, &p->part[g], n, with_veto, out), "an exchange of gradients", err);
    }
    return rc;
}

/* Of each sample `bytes` at `base`, of which each rank has those of its lanes. */
static int gather_samples(const mf_program *p, size_t n, void *base, size_t bytes, struct mf_err *err)
{
    std::vector<size_t> at(p->ranks + 1);
    int rc = 0;
    for (size_t first = 0; rc == 0 && first < n; first += mf_program_wave(p)) {
        for (int k = 0; k <= p->ranks; k++)
            at[k] = samples_of(p, n, first, lane_of_rank(p, k), p->lanes).first;
        rc = p->l->verbs->gather(p->l->ranks, base, bytes, at.data(), err);
    }
    return rc;
}

static int gather_rows(const mf_program *p, struct mf_err *err)
{
    std::vector<size_t> row(p->ranks + 1);
    for (int k = 0; k <= p->ranks; k++)
        row[k] = mf_rows_before(p->rows, lane_of_rank(p, k));
    return p->l->verbs->gather(p->l->ranks, p->staged, p->lane * sizeof(float), row.data(), err);
}

static int exchange_by_host(mf_program *p, size_t n, bool with_veto, struct mf_err *err)
{
    int rc = gather_rows(p, err);
    if (rc || (with_veto && (rc = gather_samples(p, n, staged_row(p, p->lanes), sizeof(float), err))))
        return rc;
    rc = carry_all(p, n, with_veto, false, err);
    return rc ? rc : join_streams(p, err); /* the next run writes to p->staged */
}

/* To one GPU of this process: a row or a span is in its place there, or comes from the GPU that has it. */
static void broadcast_all(const mf_program *p, const mf_gpu_part *q, size_t n, bool with_veto)
{
    for (int from = 0; from < p->parts; from++) {
        int lane = mf_program_first_lane(p, from), end = mf_program_first_lane(p, from + 1);
        for (int l = lane; l < end; l++)
            if (p->rows >> l & 1)
                mf_nccl_broadcast(p->dev->nccl, q->gpu, from, q->lane_room + l * p->lane, p->lane, q->stream);
        for (size_t first = 0; with_veto && first < n; first += mf_program_wave(p)) {
            struct sample_span s = samples_of(p, n, first, lane, end);
            mf_nccl_broadcast(p->dev->nccl, q->gpu, from, q->veto + s.first, s.end - s.first, q->stream);
        }
    }
}

static int exchange_by_nccl(mf_program *p, size_t n, bool with_veto, struct mf_err *err)
{
    mf_nccl_begin(p->dev->nccl);
    for (int g = 0; g < p->dev->n_gpus; g++)
        broadcast_all(p, &p->part[g], n, with_veto);
    return mf_nccl_end(p->dev->nccl, err);
}

/* Ranks meet before they exchange: so that one of them is late, or has failed with rc, shows here. */
static int meet(mf_program *p, size_t n, bool with_veto, int rc, struct mf_err *err)
{
    if (rc == 0 && !p->dev->nccl && (rc = carry_all(p, n, with_veto, true, err)) == 0)
        rc = mf_program_wait(p, err);
    return p->l->verbs->meet(p->l->ranks, rc, err);
}

int mf_program_exchange(mf_program *p, size_t n, bool with_veto, int rc, struct mf_err *err)
{
    if (p->ranks > 1)
        rc = meet(p, n, with_veto, rc, err);
    if (rc)
        return rc;
    return p->ranks == 1  ? exchange_here(p, n, with_veto, err)
           : p->dev->nccl ? exchange_by_nccl(p, n, with_veto, err)
                          : exchange_by_host(p, n, with_veto, err);
}

/* ---- what was fetched ---- */

/* The samples of this process's other GPUs, to those of the first. */
static void join(const mf_program *p, const mf_running *r, size_t i)
{
    size_t bytes = r->floats[i] * sizeof(float);
    for (int g = 1; g < p->dev->n_gpus; g++)
        for (size_t first = 0; first < r->n; first += mf_program_wave(p)) {
            struct sample_span s = samples_of(p, r->n, first, &p->part[g]);
            memcpy(r->out[0] + r->at[i] + s.first * bytes, r->out[g] + r->at[i] + s.first * bytes,
                   (s.end - s.first) * bytes);
        }
}

int mf_program_join(const mf_program *p, const mf_running *r, struct mf_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->fetch.size(); i++) {
        join(p, r, i);
        if (p->ranks > 1)
            rc = gather_samples(p, r->n, r->out[0] + r->at[i], r->floats[i] * sizeof(float), err);
    }
    return rc;
}
