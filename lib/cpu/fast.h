/* fast.h - fast forms of operations: one is a file, fast_NAME.c, found by the operation's name (the files are the
 * table). An operation without one runs its reference loops.
 */
#ifndef MF_CPU_FAST_H
#define MF_CPU_FAST_H

#include "cpu/crew.h"
#include "cpu/gemm.h"

struct mf_fast;

struct mf_cpu_call {
    struct mf_call call;
    const struct mf_op *op;
    const struct mf_fast *fast; /* NULL: none */
    const float *only;          /* mf_listed's, or NULL */
    bool by_rows;               /* mf_op's, and no operand is stored head by head */
    size_t aux_floats;          /* of one sample */
    int part, parts;            /* of the result, where several workers compute it; parts 0: all of it */
    struct mf_crew *crew;       /* helps this worker */
    int worker;
    const struct mf_products *products;
    const struct mf_pack *pack, *pack_back; /* columns of W for x -> y, and for y.grad -> x.grad */
    const void *W_bf16;                     /* mf_listed's, where mf_fast.keeps; else NULL */
};

/* Columns [from, from + n) of W: w(k, n) of a product is W[n, k], or W[k, n] when transposed. */
struct mf_packing {
    int from, n;
    bool transposed;
};

struct mf_fast {
    const char *name; /* of the operation */
    void (*forward)(const struct mf_cpu_call *c, int n);
    void (*backward)(const struct mf_cpu_call *c, int n, float *lane); /* NULL: the reference loops */
    size_t (*work)(const struct mf_cpu_call *c, int n, bool backward); /* floats; NULL: none */
    bool divides;                                                      /* forward computes its part alone */
    /* The columns of W to pack for pack, and for pack_back where x[0] has a gradient; by shapes. NULL: none. */
    void (*packs)(const struct mf_call *c, struct mf_packing want[2]);
    /* Forward reads W where it is, as bf16: by its pack, or from W_bf16. NULL: it needs floats. */
    bool (*keeps)(const struct mf_call *c);
};

extern const struct mf_fast *const mf_fasts[];                                        /* ends with NULL */
const struct mf_fast *mf_fast_find(const struct mf_fast *const *all, const char *op); /* NULL: none */

/* By the fast form, or by the reference loops. */
void mf_cpu_forward(const struct mf_cpu_call *c, int n);
void mf_cpu_backward(const struct mf_cpu_call *c, int n, float *lane);
size_t mf_cpu_work(const struct mf_cpu_call *c, int n, bool backward);

#endif
