#include "cuda/move.h"

#include "cuda/launch.h"

struct feeds {
    struct mf_feed_to to[MF_FEEDS];
};

/* A block row for each feed. */
static __global__ void __launch_bounds__(MF_BLOCK)
    feed_kernel(const struct mf_wave *w, struct mf_places at, struct feeds all)
{
    int f = blockIdx.y, floats = all.to[f].floats;
    size_t count = (size_t)at.lanes * at.room * floats;
    const float *base = w->feed[f].base;
    for (size_t i = blockIdx.x * (size_t)MF_BLOCK + threadIdx.x; i < count; i += (size_t)gridDim.x * MF_BLOCK) {
        int place = (int)(i / floats), e = (int)(i % floats), sample = mf_sample_at(w, at, place);
        size_t row = w->first + (sample < 0 ? w->samples - 1 : sample);
        all.to[f].to[i] = base[(w->feed[f].indexed ? w->index[row] : row) * w->feed[f].stride + e];
    }
}

cudaError_t mf_feed_all(const struct mf_wave *w, struct mf_places at, const struct mf_feed_to *to, int n,
                        cudaStream_t stream)
{
    struct feeds all = {};
    size_t most = 1;
    for (int i = 0; i < n; i++) {
        all.to[i] = to[i];
        size_t blocks = ((size_t)at.lanes * at.room * to[i].floats + MF_BLOCK - 1) / MF_BLOCK;
        most = blocks > most ? blocks : most;
    }
    if (n == 0)
        return cudaSuccess;
    return mf_launch(stream, dim3((unsigned)(most < MF_GRID ? most : MF_GRID), n), dim3(MF_BLOCK), 0, feed_kernel, w,
                     at, all);
}

cudaError_t mf_fetch_one(const struct mf_fetching &f, cudaStream_t stream)
{
    return mf_each(stream, (size_t)f.at.lanes * f.at.room * f.floats, f);
}

cudaError_t mf_start_loss(const struct mf_wave *w, struct mf_places at, float *grad, float scale, cudaStream_t stream)
{
    return mf_each(stream, (size_t)at.lanes * at.room,
                   [=] __device__(size_t i) { grad[i] = mf_sample_at(w, at, (int)i) < 0 ? 0.0f : scale; });
}

cudaError_t mf_start_shared(const struct mf_wave *w, float *grad, float scale, bool add, cudaStream_t stream)
{
    return mf_each(stream, 1, [=] __device__(size_t i) { grad[i] = (add ? grad[i] : 0.0f) + scale * (float)w->n; });
}
