/* probe - what this machine can do at most: multiply-adds and memory, on one core and on all.
 *
 *   probe [bf16]
 *
 * Prints one line of key=value words. fma: GF/s. triad: GB/s of a[i] = b[i] + s c[i] over arrays far beyond the
 * caches, counted as 12 bytes. With bf16 also: GF/s of multiply-adds of bf16 in pairs on one core, 0 where the
 * processor has none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fma.h"

enum { THREADS_MAX = FMA_THREADS_MAX, ROUNDS = 25 };
static const long STEPS = 1000000;
static const size_t TRIAD = 8 << 20; /* floats, of each of three arrays and each thread */

struct job {
    pthread_t thread;
    float *a;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *triad_job(void *arg)
{
    struct job *j = arg;
    float *restrict a = j->a, *restrict b = a + TRIAD, *restrict c = b + TRIAD;
    for (size_t i = 0; i < TRIAD; i++)
        a[i] = b[i] + 0.5f * c[i];
    return NULL;
}

/* The shortest of some rounds, in seconds. */
static double best(int threads, struct job *jobs, void *(*fn)(void *))
{
    double least = 1e9;
    for (int r = 0; r < ROUNDS; r++) {
        double t = now();
        for (int i = 1; i < threads; i++)
            pthread_create(&jobs[i].thread, NULL, fn, &jobs[i]);
        fn(&jobs[0]);
        for (int i = 1; i < threads; i++)
            pthread_join(jobs[i].thread, NULL);
        t = now() - t;
        least = t < least ? t : least;
    }
    return least;
}

static double best_fma(int cores, bool bf16)
{
    double most = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double rate = bench_fma(cores, STEPS, bf16);
        most = rate > most ? rate : most;
    }
    return most;
}

int main(int argc, char **argv)
{
    static struct job jobs[THREADS_MAX];
    (void)argv;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int all = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores;
    printf("cores=%d fma_1=%.1f fma_all=%.1f", all, best_fma(1, false), best_fma(all, false));
    if (argc > 1)
        printf(" bf16_1=%.1f", best_fma(1, true));
    for (int i = 0; i < all; i++)
        if (!(jobs[i].a = calloc(3 * TRIAD, sizeof(float))))
            return 1;
    for (int i = 0; i < all; i++)
        for (size_t k = 0; k < 3 * TRIAD; k += 1024)
            jobs[i].a[k] = 1.0f; /* so that the pages are there */
    printf(" triad_1=%.1f", 12e-9 * (double)TRIAD / best(1, jobs, triad_job));
    printf(" triad_all=%.1f\n", 12e-9 * (double)TRIAD * all / best(all, jobs, triad_job));
    return 0;
}
