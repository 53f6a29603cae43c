/* move.h - samples on their way in and out: which sample is where, feeds, fetches, and where losses start. */
#ifndef MF_CUDA_MOVE_H
#define MF_CUDA_MOVE_H

#include "cuda/kernel.h"

enum { MF_FEEDS = 32, MF_FETCHES = 32 };

/* What differs between the runs of a recorded graph, in device memory. A wave is the samples that are computed at once:
 * lane l of all lanes has those from l * each, up to `each` of them, in the first of its places. */
struct mf_wave {
    size_t n;          /* samples of the run */
    size_t first;      /* the first of the wave */
    int samples, each; /* of the wave, at least 1; of a lane, at most */
    const uint32_t *index;
    struct {
        const float *base;
        size_t stride;
        bool indexed;
    } feed[MF_FEEDS];
    float *fetch[MF_FETCHES]; /* where the run's first sample goes */
};

/* The places of this GPU: lanes [lane, lane + lanes) of all, `room` samples each. */
struct mf_places {
    int lane, lanes, room;
};

struct mf_feed_to {
    float *to;
    int floats;
};

/* Places without a sample of their own get the wave's last one. */
cudaError_t mf_feed_all(const struct mf_wave *w, struct mf_places at, const struct mf_feed_to *to, int n,
                        cudaStream_t stream);
/* The wave's sample in a place; -1: none of its own. */
static __device__ __forceinline__ int mf_sample_at(const struct mf_wave *w, struct mf_places at, int place)
{
    int j = place % at.room, sample = (at.lane + place / at.room) * w->each + j;
    return j < w->each && sample < w->samples ? sample : -1;
}

/* Fetch `number`: `floats` of each sample; of a shared value, the same for all. */
struct mf_fetching {
    const struct mf_wave *w;
    struct mf_places at;
    int number, floats;
    const float *from;
    bool shared;
    __device__ void operator()(size_t i) const
    {
        int place = (int)(i / floats), e = (int)(i % floats), sample = mf_sample_at(w, at, place);
        if (sample >= 0)
            w->fetch[number][(w->first + sample) * floats + e] = from[shared ? e : i];
    }
};

cudaError_t mf_fetch_one(const struct mf_fetching &f, cudaStream_t stream);
/* A loss's gradient starts as `scale`; as 0 in places without a sample of their own. */
cudaError_t mf_start_loss(const struct mf_wave *w, struct mf_places at, float *grad, float scale, cudaStream_t stream);
/* That of a shared value counts once per sample: it becomes, or has added, n * scale. */
cudaError_t mf_start_shared(const struct mf_wave *w, float *grad, float scale, bool add, cudaStream_t stream);

#endif
