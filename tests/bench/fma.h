/* fma.h - multiply-adds in registers (AVX2, the widest fp32 kernel of mf), a thread to a core: what the machine can do
 * at this moment. On a shared host a core's rate moves by a third from one second to the next, so a share of the peak
 * is a share of bursts that ran between the turns it is of.
 */
#ifndef MF_BENCH_FMA_H
#define MF_BENCH_FMA_H

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { FMA_CHAINS = 12, FMA_THREADS_MAX = 256 };

struct fma_job {
    pthread_t thread;
    int core;
    long steps;
    float out;
    double rate; /* GF/s */
};

__attribute__((target("avx2,fma"))) static void *fma_job(void *arg)
{
    struct fma_job *j = arg;
    struct timespec t0, t1;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(j->core, &core);
    pthread_setaffinity_np(pthread_self(), sizeof core, &core);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    __m256 a[FMA_CHAINS], b = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.1f);
    for (int k = 0; k < FMA_CHAINS; k++)
        a[k] = _mm256_set1_ps((float)k);
    for (long s = 0; s < j->steps; s++)
        for (int k = 0; k < FMA_CHAINS; k++)
            a[k] = _mm256_fmadd_ps(a[k], b, c);
    for (int k = 0; k < FMA_CHAINS; k++)
        j->out += _mm256_cvtss_f32(a[k]);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    j->rate =
        16e-9 * FMA_CHAINS * (double)j->steps / (double)(t1.tv_sec - t0.tv_sec + 1e-9 * (t1.tv_nsec - t0.tv_nsec));
    return NULL;
}

/* GF/s of so many cores together; 0 where there are no such instructions. A million steps are some 2 ms. */
static inline double bench_fma(int cores, long steps)
{
    static struct fma_job jobs[FMA_THREADS_MAX];
    double sum = 0;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || cores > FMA_THREADS_MAX)
        return 0;
    for (int i = 0; i < cores; i++) {
        jobs[i] = (struct fma_job){.core = i, .steps = steps};
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
