/* ranks - the sum of one row of gradients over ranks, as of a minibatch (cpu/sum.c), beside MPI_Allreduce of the same
 * floats.
 *
 *   mpirun -np R ranks [FLOATS]
 *
 * Prints "mpi_ms=.. ours_ms=..": medians of TURNS, in turn.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/clock.h"
#include "ranks/ranks.h"

enum { TURNS = 101, FLOATS = 500000 };

struct bench {
    struct mf_ranks *ranks;
    int n, me;
    size_t floats, *row, *column;
    float *rows, *sum; /* (n, floats): each rank's; (floats) */
};

static void reduce(struct bench *b)
{
    MPI_Allreduce(b->rows + (size_t)b->me * b->floats, b->sum, (int)b->floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void exchange(struct bench *b)
{
    struct mf_err err;
    int rc = mf_ranks_exchange(b->ranks, b->rows, b->floats, b->row, b->row, b->column, &err);
    const size_t first = b->column[b->me], n = b->column[b->me + 1] - first;
    memcpy(b->sum + first, b->rows + first, n * sizeof *b->sum);
    for (int k = 1; k < b->n; k++)
        add(b->sum + first, b->rows + (size_t)k * b->floats + first, n);
    if (rc || (rc = mf_ranks_gather(b->ranks, b->sum, sizeof *b->sum, b->column, &err))) {
        fprintf(stderr, "ranks: %s\n", err.text);
        exit(1);
    }
}

static double seconds(struct bench *b, void (*turn)(struct bench *))
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = mf_now();
    turn(b);
    return mf_now() - start;
}

static int upwards(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of)
{
    qsort(of, TURNS, sizeof *of, upwards);
    return of[TURNS / 2];
}

int main(int argc, char **argv)
{
    struct bench b = {.floats = argc > 1 ? (size_t)atoll(argv[1]) : FLOATS};
    struct mf_err err = {.text = "start it with mpirun -np 2"};
    if (mf_ranks_open(&b.ranks, 60, &err) || !b.ranks) {
        fprintf(stderr, "ranks: %s\n", err.text);
        return 2;
    }
    b.n = mf_ranks_count(b.ranks), b.me = mf_ranks_me(b.ranks);
    b.row = mf_xcalloc((size_t)b.n + 1, sizeof *b.row);
    b.column = mf_xcalloc((size_t)b.n + 1, sizeof *b.column);
    for (int k = 0; k <= b.n; k++)
        b.row[k] = (size_t)k, b.column[k] = mf_ranks_first(b.ranks, k, b.floats);
    b.rows = mf_xcalloc((size_t)b.n * b.floats, sizeof *b.rows);
    b.sum = mf_xcalloc(b.floats, sizeof *b.sum);
    for (size_t i = 0; i < b.floats; i++)
        b.rows[(size_t)b.me * b.floats + i] = (float)(i % 7) + (float)b.me;
    double theirs[TURNS], ours[TURNS];
    float *want = mf_xcalloc(b.floats, sizeof *want);
    reduce(&b);
    memcpy(want, b.sum, b.floats * sizeof *want);
    exchange(&b);
    if (memcmp(want, b.sum, b.floats * sizeof *want) != 0) {
        fprintf(stderr, "ranks: the sums differ\n");
        return 1;
    }
    for (int i = 0; i < TURNS; i++) {
        theirs[i] = seconds(&b, reduce);
        ours[i] = seconds(&b, exchange);
    }
    if (b.me == 0)
        printf("mpi_ms=%.4g ours_ms=%.4g\n", 1e3 * median(theirs), 1e3 * median(ours));
    mf_ranks_close(b.ranks, 0);
    return 0;
}
