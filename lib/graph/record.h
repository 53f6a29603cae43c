/* record.h - the recorded graph, as operations write it and plan.c reads it. */
#ifndef MF_GRAPH_RECORD_H
#define MF_GRAPH_RECORD_H

#include "dev/op.h"
#include "graph/graph.h"

struct mf_value {
    int rows, cols;
    bool shared;
    int node; /* that makes it; -1: an input */
    int root; /* the value whose floats these are: itself, but for a reshape or what is detached */
    bool detached;
    float scale; /* of the loss that starts here; 0: none */
};

struct mf_node {
    const struct mf_op *op;
    void *how;         /* its attributes */
    int y;             /* value */
    int n_x, *x;       /* values */
    size_t aux_floats; /* of mf_call.aux, of one sample (of one shared value) */
    int W, b;          /* parameters; -1: none */
};

struct mf_graph {
    struct mf_params *params;
    int n_values;
    struct mf_value *value; /* 0 is MF_NONE */
    int n_nodes;
    struct mf_node *node;
};

/* One node more, of n operands, without those that are MF_NONE; how: its attributes, copied (NULL: it has none). The
 * result is shared when all operands are. */
struct mf_val mf_record(struct mf_graph *g, const struct mf_op *op, const void *how, int n, const struct mf_val *x,
                        int rows, int cols);
/* The node that made y, for what mf_record left unset: keep 0, no parameters. Valid until the next node. */
struct mf_node *mf_record_of(struct mf_graph *g, struct mf_val y);
/* Unless good, a bug in the caller: print the operation and the shapes, and abort. */
void mf_record_want(const struct mf_graph *g, bool good, const struct mf_op *op, int n, const struct mf_val *x);
bool mf_has_shape(const struct mf_graph *g, struct mf_val v, int rows, int cols);
bool mf_spreads(const struct mf_graph *g, struct mf_val v, int rows,
                int cols); /* v's rows over these; cols as they are */

/* A node's call with attributes and shapes alone, for its operation's hooks; free its x. */
struct mf_call mf_node_shapes(const struct mf_graph *g, int node);

#endif
