/* fma.h - multiply-adds in registers, as wide as the processor has them, a thread on each core: what the machine can do
 * at this moment. On a shared host a core's rate moves by a third from one second to the next, so a share of the peak
 * is a share of bursts that ran between the turns it is of.
 */
#ifndef MF_BENCH_FMA_H
#define MF_BENCH_FMA_H

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

enum { FMA_CHAINS = 12, FMA_THREADS_MAX = 256 };

struct fma_job {
    pthread_t thread;
    int core;
    long steps;
    bool bf16; /* pairs of bf16, where the processor has instructions for them */
    float out;
    double rate; /* GF/s */
};

#define FMA_BURST(isa, target_isa, type, all, multiply_add, first)                                                     \
    __attribute__((target(target_isa))) static void burst_##isa(struct fma_job *j)                                     \
    {                                                                                                                  \
        type a[FMA_CHAINS], b = all(0.999f), c = all(0.1f);                                                            \
        for (int k = 0; k < FMA_CHAINS; k++)                                                                           \
            a[k] = all((float)k);                                                                                      \
        for (long s = 0; s < j->steps; s++)                                                                            \
            for (int k = 0; k < FMA_CHAINS; k++)                                                                       \
                a[k] = multiply_add(a[k], b, c);                                                                       \
        for (int k = 0; k < FMA_CHAINS; k++)                                                                           \
            j->out += first(a[k]);                                                                                     \
    }
FMA_BURST(avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
FMA_BURST(avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
#define FMA_PAIRS(sum, b, c) _mm512_dpbf16_ps(sum, (__m512bh)(b), (__m512bh)(c))
FMA_BURST(bf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps, FMA_PAIRS, _mm512_cvtss_f32)

static void *fma_job(void *arg)
{
    struct fma_job *j = arg;
    struct timespec t0, t1;
    cpu_set_t core;
    const bool wide = __builtin_cpu_supports("avx512f");
    CPU_ZERO(&core);
    CPU_SET(j->core, &core);
    pthread_setaffinity_np(pthread_self(), sizeof core, &core);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    (j->bf16 ? burst_bf16 : wide ? burst_avx512 : burst_avx2)(j);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    j->rate = (j->bf16 ? 64e-9
               : wide  ? 32e-9
                       : 16e-9) *
              FMA_CHAINS * (double)j->steps / (double)(t1.tv_sec - t0.tv_sec + 1e-9 * (t1.tv_nsec - t0.tv_nsec));
    return NULL;
}

/* GF/s of so many cores together; 0 where there are no such instructions. A million steps are some 2 ms. */
static inline double bench_fma(int cores, long steps, bool bf16)
{
    static struct fma_job jobs[FMA_THREADS_MAX];
    double sum = 0;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || cores > FMA_THREADS_MAX ||
        (bf16 && !__builtin_cpu_supports("avx512bf16")))
        return 0;
    for (int i = 0; i < cores; i++) {
        jobs[i] = (struct fma_job){.core = i, .steps = steps, .bf16 = bf16};
        if (pthread_create(&jobs[i].thread, NULL, fma_job, &jobs[i]))
            return 0;
    }
    for (int i = 0; i < cores; i++) {
        pthread_join(jobs[i].thread, NULL);
        sum += jobs[i].rate;
    }
    return sum;
}

#endif
