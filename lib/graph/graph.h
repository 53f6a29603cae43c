/* graph.h - records a computation once; a plan (plan.h) replays it for every tile of samples.
 *
 * A value is, for every sample, a (rows, cols) matrix of floats: rows are the denoising steps or tokens of that sample.
 * A `shared` value is one (rows, cols) matrix for all samples (a time grid, coefficients). Functions of other rooms
 * record operations (op/ops.h, flow/ops.h, rl/losses.h); the graph knows none of them by name. A value is
 * differentiated where a loss depends on it and it depends on a trained parameter.
 *
 * A row's bits depend on no other row, on the number of samples, the tile or the thread.
 *
 * Recording fails by misuse alone, which is a bug: it aborts with the operation's name and the shapes.
 */
#ifndef MF_GRAPH_GRAPH_H
#define MF_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "dev/device.h" /* struct mf_val */

/* ---- parameters: named fp32 matrices in one flat array ---- */

enum mf_group {
    MF_GROUP_POLICY,
    MF_GROUP_CRITIC,
    MF_GROUP_NOISE,
    MF_GROUP_ENCODER, /* of observations, in networks that have one */
    MF_GROUP_STEER,   /* the latent actor, which chooses the initial noise of a frozen flow */
    MF_GROUP_BUFFER,  /* saved, never trained */
    MF_GROUPS
};

enum mf_init {
    MF_INIT_UNIFORM, /* U(-a,a) */
    MF_INIT_NORMAL,  /* N(0,a) */
    MF_INIT_CONST,   /* a */
    MF_INIT_ORTHO,   /* a times orthonormal rows, or columns where those are fewer (Saxe et al. 2014, as in PyTorch) */
    MF_INIT_GRID_X,  /* places in [-1, 1] of the pixels of a map with rows of a pixels, from left to right */
    MF_INIT_GRID_Y   /* from top to bottom */
};

struct mf_param {
    char name[128]; /* "network.mlp_mean.layers.0.weight" */
    int rows, cols; /* a bias is (1, cols) */
    int rank;       /* of its shape in a checkpoint: 1 (cols), 2 (rows, cols), 3 (1, rows, cols), 4: below */
    int kernel;     /* of a 1-D convolution: a checkpoint's shape is (rows, cols/kernel, kernel); 0: none */
    int window[2];  /* rank 4, of a 2-D convolution: (rows, window[0], window[1], channels), as here */
    enum mf_group group;
    enum mf_init init;
    float a;
    size_t at;        /* offset in value */
    const void *bf16; /* or where it is instead, as bf16 (rows, cols), unaligned, in a file; NULL: in value */
};

struct mf_params {
    int n;
    struct mf_param *p;
    size_t size;      /* floats */
    size_t trained;   /* those before the frozen ones: gradients, moments and averages are so long */
    unsigned frozen;  /* bit g: group g is not trained */
    float *value;     /* NULL until alloc; 64-byte aligned */
    uint64_t version; /* of the values; mf_params_touch counts it up */
};

/* Index of the parameter; the existing one when the name is there (shapes must agree). */
int mf_param_add(struct mf_params *ps, const char *name, int rows, int cols, int rank, enum mf_group group,
                 enum mf_init init, float a);
int mf_param_find(const struct mf_params *ps, const char *name); /* -1: none */
/* A convolution's weight, (rows, cols) here and (rows, cols/kernel, kernel) in checkpoints: U(+-a). */
int mf_param_add_kernel(struct mf_params *ps, const char *name, int rows, int cols, int kernel, enum mf_group group,
                        float a);
/* A 2-D convolution's weight, (out, kh*kw*in): U(+-a). */
int mf_param_add_conv(struct mf_params *ps, const char *name, int out, int kh, int kw, int in, enum mf_group group,
                      float a);
size_t mf_params_count(const struct mf_params *ps, enum mf_group group);
/* From now on the groups of these bits are not trained: they have no gradients, moments and averages, and no gradient
 * is computed for them alone. Their values come behind the others'. Before alloc. */
void mf_params_freeze(struct mf_params *ps, unsigned groups);
bool mf_param_trained(const struct mf_params *ps, int i);
/* Parameter i, of a frozen group, is there, and has no floats in value. Before alloc; it is borrowed. */
void mf_param_keep(struct mf_params *ps, int i, const void *bf16);
/* The same of both for the parameters of another such network, so that their values lie as there. Before alloc. */
void mf_params_like(struct mf_params *ps, const struct mf_params *of);
int mf_params_alloc(struct mf_params *ps, struct mf_err *err); /* zeroed */
void mf_params_fresh(struct mf_params *ps, uint64_t seed);     /* values by init */
void mf_params_touch(struct mf_params *ps);                    /* the host has changed values: plans send them */
void mf_params_release(struct mf_params *ps);

/* ---- values ---- */

struct mf_graph;
struct mf_graph *mf_graph_new(struct mf_params *ps); /* borrows ps */
void mf_graph_free(struct mf_graph *g);
struct mf_params *mf_graph_params(const struct mf_graph *g); /* layers add their parameters there */
int mf_rows(const struct mf_graph *g, struct mf_val v);
int mf_cols(const struct mf_graph *g, struct mf_val v);
bool mf_is_shared(const struct mf_graph *g, struct mf_val v);

struct mf_val mf_input(struct mf_graph *g, int rows, int cols);  /* fed per sample */
struct mf_val mf_shared(struct mf_graph *g, int rows, int cols); /* set per plan */

/* Aliases: other names for the floats of x. */
struct mf_val mf_reshape(struct mf_graph *g, struct mf_val x, int rows, int cols);
struct mf_val mf_detach(struct mf_graph *g, struct mf_val x); /* no gradient passes */
/* x, of whose rows those alone are read where mask (rows, 1) is not 0. The others, and the same rows of what is
 * computed row by row from it, have no meaning: a device may leave them out, and sets them to 0 then. */
struct mf_val mf_only(struct mf_graph *g, struct mf_val x, struct mf_val mask);

/* Adds scale * v (1, 1), summed over the samples, to the loss that backward differentiates. */
void mf_loss(struct mf_graph *g, struct mf_val v, float scale);

#endif
