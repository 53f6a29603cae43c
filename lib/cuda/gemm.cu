/* gemm.cu - products by launches of their own: a block has a tile of C (product_tile.h). */
#include "cuda/gemm.h"

#include "cuda/product_tile.h"

using namespace gemm;

template <enum mf_precision P, bool A_K, bool B_K, int TILE, enum stored AS>
__global__ void __launch_bounds__(shape<TILE>::WM *shape<TILE>::WN * 32, shape<TILE>::BLOCKS)
    product(const struct job j)
{
    using L = plan<P, A_K, B_K, TILE, AS>;
    compute<P, A_K, B_K, TILE, AS>(j, blockIdx.x / j.columns * L::BM, blockIdx.x % j.columns * L::BN, blockIdx.z);
}

template <enum mf_precision P, bool A_K, bool B_K, int TILE, enum stored AS>
static cudaError_t launch(const struct mf_product *p, const struct job *of, cudaStream_t stream)
{
    using L = plan<P, A_K, B_K, TILE, AS>;
    struct job j = *of;
    j.columns = (p->N + L::BN - 1) / L::BN;
    dim3 grid((unsigned)j.columns * (unsigned)((p->M + L::BM - 1) / L::BM), 1, (unsigned)p->batch);
    return mf_launch(stream, grid, dim3(L::THREADS), L::FLOATS * sizeof(float), product<P, A_K, B_K, TILE, AS>, j);
}

/* This GPU has so much shared memory for a block. */
static bool fits(size_t floats)
{
    int device = 0, most = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
        return false; /* the launch reports why */
    return floats * sizeof(float) <= (size_t)most;
}

template <enum mf_precision P, bool A_K, bool B_K, enum stored AS = FP32>
static cudaError_t tile_of(const struct mf_product *p, const struct job *j, int tile, cudaStream_t stream)
{
    if constexpr (P != MF_FP32) /* whose sums would leave no registers */
        if (tile == 3 && fits(plan<P, A_K, B_K, 3, AS>::FLOATS))
            return launch<P, A_K, B_K, 3, AS>(p, j, stream);
    if (tile >= 2 && fits(plan<P, A_K, B_K, 2, AS>::FLOATS))
        return launch<P, A_K, B_K, 2, AS>(p, j, stream);
    return tile >= 1 ? launch<P, A_K, B_K, 1, AS>(p, j, stream) : launch<P, A_K, B_K, 0, AS>(p, j, stream);
}

template <enum mf_precision P>
static cudaError_t form_of(const struct mf_product *p, const struct job *j, int tile, cudaStream_t stream)
{
    return p->A_transposed   ? tile_of<P, false, false>(p, j, tile, stream)
           : p->B_transposed ? tile_of<P, true, true>(p, j, tile, stream)
                             : tile_of<P, true, false>(p, j, tile, stream);
}

cudaError_t mf_product_by(const struct mf_product *p, enum mf_precision precision, int tile, cudaStream_t stream)
{
    if (p->A_transposed && p->B_transposed)
        return cudaErrorInvalidValue;
    if (p->M == 0 || p->N == 0 || p->batch == 0)
        return cudaSuccess;
    struct job j = job_of(p);
    if (p->A_bf16)
        return tile_of<MF_BF16, true, true, A_BF16>(p, &j, tile, stream);
    if (p->B_bf16)
        return tile_of<MF_BF16, false, false, B_BF16>(p, &j, tile, stream);
    return precision == MF_FP32   ? form_of<MF_FP32>(p, &j, tile, stream)
           : precision == MF_TF32 ? form_of<MF_TF32>(p, &j, tile, stream)
                                  : form_of<MF_BF16>(p, &j, tile, stream);
}

/* Clocks of one SM for 1024 multiply-adds (a product of 16x8x8), of an H100 and estimated: what a tile reads passes
 * from the L2 cache at some 24 bytes a clock, and less where few blocks run. */
static const struct {
    int m, n;
    double clocks;
} tiles[MF_TILES] = {{16, 32, 10.0}, {64, 64, 4.0}, {128, 128, 2.7}, {128, 256, 2.0}};

/* Of a block, whose epilogue no other block of its SM hides where the tile is the largest. */
static double clocks_of(const struct mf_product *p, int tile)
{
    double epilogue = tile < 3 ? 0.0 : p->act > MF_ACT_RELU ? 0.5 : 0.1; /* of a number */
    return tiles[tile].m * tiles[tile].n * (p->K * tiles[tile].clocks / 1024.0 + epilogue);
}

cudaError_t mf_product(const struct mf_product *p, enum mf_precision precision, cudaStream_t stream)
{
    enum { SMS = 132 };
    int best = 0;
    double least = 0.0;
    for (int t = 0; t < MF_TILES; t++) {
        long rows = (p->M + tiles[t].m - 1) / tiles[t].m, columns = (p->N + tiles[t].n - 1) / tiles[t].n;
        double cost = (double)((rows * columns * p->batch + SMS - 1) / SMS) * clocks_of(p, t);
        if (t == 0 || cost < least)
            best = t, least = cost;
    }
    return mf_product_by(p, precision, best, stream);
}
