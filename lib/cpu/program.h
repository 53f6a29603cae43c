/* program.h - a listing compiled for this processor: calls for every worker, packed weights, lanes.
 *
 * A worker takes a tile and runs all calls on it, forward and backward, while its activations are in the cache. A
 * worker without a tile helps others with parts of their operations; where inference has few samples, all workers
 * divide every operation. Tile i adds its gradients to lane i mod `lanes`, in order within a lane; lanes are summed in
 * pairs (sum.c). Several ranks (ranks/ranks.h) divide the lanes among them, and the parts of a lane for the sum.
 */
#ifndef MF_CPU_PROGRAM_H
#define MF_CPU_PROGRAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "cpu/fast.h"
#include "dev/device.h"

enum {
    MF_BY_ROWS = 4,   /* operands of a call that is divided by rows, at most */
    MF_STRIP = 64,    /* floats that are summed over the lanes at once */
    MF_SLICE = 16384, /* floats that one worker sums at a time, a multiple of MF_STRIP */
};

struct mf_dev {
    const char *name;
    struct mf_workers *workers;
    const struct mf_fast *const *fast;  /* fast forms of operations; NULL: none, and operations are not divided */
    const struct mf_products *products; /* of fast forms */
};

struct mf_copy { /* floats of a W_bf16, for calls that cannot read it where it is */
    const void *bf16;
    size_t floats, at; /* from copy_room's base */
};

struct mf_weights_use { /* packed columns of W, for all calls that multiply by them */
    ptrdiff_t W;
    const void *bf16; /* W_bf16, of W -1 */
    int copy;         /* of it, from which it is packed; -1: it is not packed, or it is no bf16 */
    int ldw;
    struct mf_packing c;
    size_t at; /* floats from pack_room's base */
    struct mf_pack pack;
};

struct mf_program {
    struct mf_dev *dev;
    const struct mf_listing *l;
    double macs; /* multiply-adds of one sample, forward */

    float **arena; /* by worker: the tile space, then scratch */
    size_t work;   /* floats of scratch */
    float *shared;
    struct mf_cpu_call **call; /* by worker, by call of the listing */
    struct mf_tensor **operands;
    struct mf_crew crew;

    int n_copies;
    struct mf_copy *copies;
    float *copy_room;
    size_t copy_size; /* floats of it */

    int n_packs;
    struct mf_weights_use *packs;
    float *pack_room;
    size_t pack_size;                           /* floats of it */
    uint64_t packed;                            /* version of the weights that the packs hold; ~0: none */
    uint64_t weights_of_shared, sets_of_shared; /* versions that shared values were computed from */

    size_t lane;        /* floats: the listing's, in whole strips */
    float *lanes, *sum; /* (lanes, lane); (lane) */
    bool *written;      /* by slice of a lane: tiles write there */
    int *fetch_of;      /* by value: its first fetch, or -1 */
    int *next;          /* by fetch: the next of that value */
    int n_next;
    float *veto; /* by sample of a run */
    size_t n_veto;
    bool vetoed; /* a step since the first of its update */
};

struct mf_cpu_run { /* a job under way */
    struct mf_program *p;
    const struct mf_batch *batch;
    const struct mf_step *step;
    size_t tile, tiles;       /* samples of a tile; tiles */
    int first_lane, end_lane; /* this rank's: others compute the lanes before and behind */
    pthread_mutex_t lock;
    size_t next[MF_LANES_MAX]; /* by lane: its next tile */
    bool taken[MF_LANES_MAX];
    atomic_size_t any; /* the next tile where order does not matter */
    struct mf_fetch veto;
};

struct mf_subtrees {                                 /* in order */
    size_t *row;                                     /* (ranks + 1) */
    size_t first[MF_LANES_MAX], lanes[MF_LANES_MAX]; /* the first lane of each, and how many */
};

static inline size_t mf_value_floats(const struct mf_value_at *v)
{
    return (size_t)v->rows * (size_t)v->cols;
}

/* The batch's fetches, then that of the step's veto. */
static inline const struct mf_fetch *mf_cpu_fetch(const struct mf_cpu_run *r, int i)
{
    return i < r->batch->n_fetches ? &r->batch->fetch[i] : &r->veto;
}

/* compile.c */
int mf_cpu_compile(struct mf_program **p, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err);
void mf_cpu_forget(struct mf_program *p);

/* Call i with attributes and shapes alone, for hooks; the caller frees its x. */
struct mf_cpu_call mf_program_shapes(const struct mf_program *p, int i);

/* memory.c */
int mf_cpu_samples(const struct mf_dev *d, size_t floats);
void mf_cpu_memory(const struct mf_program *p, size_t n, struct mf_memory *to);
float *mf_big_alloc(size_t floats, const char *what, struct mf_err *err); /* zero, in huge pages; NULL: *err */
void mf_big_free(float *p, size_t floats);
size_t mf_program_work(const struct mf_program *p, int tile); /* floats of scratch for a tile of so many samples */

/* run.c */
int mf_cpu_set(struct mf_program *p, int value, const float *host, struct mf_err *err);
int mf_cpu_start(struct mf_program *p, const struct mf_job *j, struct mf_err *err); /* all of it */
int mf_cpu_finish(struct mf_program *p, struct mf_err *err);
const float *mf_cpu_grads(struct mf_program *p);
size_t mf_program_tile(const struct mf_program *p, size_t n);   /* samples of a tile in a run of n */
bool mf_program_together(const struct mf_program *p, size_t n); /* workers divide the operations of n samples */

/* forward.c */
void mf_cpu_call_forward(struct mf_program *p, int w, int i, int n); /* call i of worker w, which others help */

/* sum.c */
void mf_cpu_ranks(const struct mf_program *p, size_t n, int *of);
/* Of lanes, and of their columns, rank k has those from [k] to before [k + 1]. */
int mf_cpu_first_lane(const struct mf_program *p, int rank);
size_t mf_cpu_first_column(const struct mf_program *p, int rank);
/* The lanes of a run of so many tiles as subtrees of their sum, those of rank k from row[k] to before row[k + 1]; the
 * caller frees row. */
void mf_cpu_divide(const struct mf_program *p, size_t tiles, struct mf_subtrees *s);
/* Sums the lanes into p->sum, of several ranks the own columns before a step, and gives each the fetches of the others.
 * MF_EIO, MF_ENOMEM. */
int mf_cpu_sum(struct mf_cpu_run *r, struct mf_err *err);

/* step.c */
int mf_cpu_step(struct mf_program *p, const struct mf_job *j, struct mf_err *err); /* MF_EIO, of another rank */

#endif
