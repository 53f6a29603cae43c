/* drawn.h - what tests of kernels start from: random numbers, device memory full of them, and kernels by their name. */
#ifndef MF_TEST_DRAWN_H
#define MF_TEST_DRAWN_H

#include <cstring>
#include <vector>

#include "../unit/tap.h"
#include "cuda/kernel.h"

static inline float drawn() /* in (-1, 1), few of them the same */
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(int)state / 2147483648.0f;
}

static inline const struct mf_kernel *kernel_named(const char *name)
{
    int i = 0;
    while (strcmp(mf_kernels[i]->name, name))
        i++;
    return mf_kernels[i];
}

/* Device memory for tensors, which each run finds as it was drawn. */
struct drawn_memory {
    std::vector<float> start;
    float *memory = NULL;
    size_t taken = 0;

    drawn_memory() = default;
    drawn_memory(const drawn_memory &) = delete;
    ~drawn_memory()
    {
        cudaFree(memory);
    }

    void draw(size_t floats)
    {
        start.resize(floats);
        for (float &f : start)
            f = drawn();
        cudaMalloc(&memory, floats * sizeof(float));
    }
    float *room(size_t floats, size_t align = 64)
    {
        float *p = memory + taken;
        taken += (floats + align - 1) / align * align;
        return p;
    }
    /* What lies there in `of`: start, or what a run has left. */
    float *in(std::vector<float> &of, const float *place) const
    {
        return &of[(size_t)(place - memory)];
    }

    void restart() const
    {
        cudaMemcpy(memory, start.data(), start.size() * sizeof(float), cudaMemcpyDefault);
    }
    std::vector<float> left(cudaError_t rc) const /* by a run that ended with rc */
    {
        std::vector<float> v(start.size());
        if (rc != cudaSuccess || (rc = cudaDeviceSynchronize()) != cudaSuccess)
            ok(0, "a run: %s", cudaGetErrorString(rc));
        cudaMemcpy(v.data(), memory, v.size() * sizeof(float), cudaMemcpyDefault);
        return v;
    }
};

static inline bool same_bits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && !memcmp(a.data(), b.data(), a.size() * sizeof(float));
}

#endif
