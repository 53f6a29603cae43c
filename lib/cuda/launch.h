/* launch.h - launches, and the two kernels that most operations are made of: something for each number, and sums over
 * rows. Both take a function object (an extended lambda).
 */
#ifndef MF_CUDA_LAUNCH_H
#define MF_CUDA_LAUNCH_H

#include <utility>

#include <gpu.h>

#include "cuda/kernel.h"

/* f<<<grid, block, smem, stream>>>(args), smem bytes of dynamic shared memory, above 48 KiB, too. */
template <class... P, class... A>
cudaError_t mf_launch(cudaStream_t stream, dim3 grid, dim3 block, size_t smem, void (*f)(P...), A &&...args)
{
    cudaLaunchConfig_t how = {};
    how.gridDim = grid;
    how.blockDim = block;
    how.dynamicSmemBytes = smem;
    how.stream = stream;
    if (smem > 48 << 10) {
        cudaError_t rc = cudaFuncSetAttribute((const void *)f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
        if (rc != cudaSuccess)
            return rc;
    }
    return cudaLaunchKernelEx(&how, f, std::forward<A>(args)...);
}

/* The first error of two launches, the second of which is not tried after a failure. */
#define MF_THEN(rc, next) ((rc) != cudaSuccess ? (rc) : (next))

enum { MF_BLOCK = 256 };
static const size_t MF_GRID = 1 << 16; /* blocks at most, each of which then takes several numbers a thread */

template <class F> __global__ void __launch_bounds__(MF_BLOCK) mf_each_kernel(size_t count, F f)
{
    for (size_t i = blockIdx.x * (size_t)MF_BLOCK + threadIdx.x; i < count; i += (size_t)gridDim.x * MF_BLOCK)
        f(i);
}

/* f(i) for i = 0..count-1, each by a thread. */
template <class F> cudaError_t mf_each(cudaStream_t stream, size_t count, F f)
{
    size_t blocks = (count + MF_BLOCK - 1) / MF_BLOCK;
    if (count == 0)
        return cudaSuccess;
    return mf_launch(stream, dim3((unsigned)(blocks < MF_GRID ? blocks : MF_GRID)), dim3(MF_BLOCK), 0,
                     mf_each_kernel<F>, count, f);
}

enum { MF_FOLD = 32 }; /* columns of a block, and threads that share the rows of a column */

/* Thread (j, g) adds rows g, g + 32, .. of its column; the 32 sums are added in order. So zeros at the end of a lane
 * change no bit. */
template <class F>
__global__ void __launch_bounds__(MF_FOLD *MF_FOLD)
    mf_fold_kernel(int rows, int rows_of_y, int samples, float *to, int ld, size_t stride, int cols, bool add, F f)
{
    float *sums = mf_shared<float>(); /* (MF_FOLD, MF_FOLD) */
    int t = blockIdx.y, j = blockIdx.x * MF_FOLD + threadIdx.x, span = rows_of_y / rows, lane = blockIdx.z;
    float sum = 0.0f;
    for (int q = threadIdx.y; j < cols && q < samples * span; q += MF_FOLD)
        sum += f((lane * samples + q / span) * rows_of_y + t * span + q % span, j);
    sums[threadIdx.y * MF_FOLD + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || j >= cols)
        return;
    float *at = to + lane * stride + (size_t)t * ld + j;
    sum = add ? *at : 0.0f;
    for (int g = 0; g < MF_FOLD; g++)
        sum += sums[g * MF_FOLD + threadIdx.x];
    *at = sum;
}

/* The gradient of an operand x that the call's y reads spread: to[t, j], ld floats a row, becomes the sum of f(i, j)
 * over the rows i of y that read row t of x, or has it added where x->add. Of a parameter: x (rows, cols), shared and
 * add. */
template <class F>
cudaError_t mf_fold(const struct mf_kernel_call *k, const struct mf_tensor *x, float *to, int ld, int cols, F f)
{
    const struct mf_tensor *y = &k->call.y;
    int span = y->rows / x->rows;
    bool add = x->add;
    if (x->shared)
        return mf_launch(k->stream, dim3((cols + MF_FOLD - 1) / MF_FOLD, x->rows, k->lanes), dim3(MF_FOLD, MF_FOLD),
                         MF_FOLD * MF_FOLD * sizeof(float), mf_fold_kernel<F>, x->rows, y->rows, k->n / k->lanes, to,
                         ld, k->stride, cols, add, f);
    return mf_each(k->stream, (size_t)k->n * x->rows * cols, [=] __device__(size_t at) {
        int t = (int)(at / cols), j = (int)(at % cols);
        float *p = to + (size_t)t * ld + j, sum = add ? *p : 0.0f;
        for (int r = 0; r < span; r++)
            sum += f(t * span + r, j);
        *p = sum;
    });
}

#endif
