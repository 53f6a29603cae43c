/* record.h - the recorded graph: operations write it, plans read it (private to lib/graph and to operations). */
#ifndef MF_GRAPH_RECORD_H
#define MF_GRAPH_RECORD_H

#include "dev/op.h"
#include "graph/graph.h"

struct mf_value {
    int rows, cols;
    bool shared;
    int node; /* that computes it; -1: an input */
    int root; /* itself; of an alias, the value whose floats it names */
    bool detached;
    float scale; /* of the loss that starts here; 0: none */
    int only;    /* value (rows, 1): rows where it is 0 need not be computed; 0: all are computed */
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

/* Adds a node of n operands, of which those that are MF_NONE are left out; how: its attributes, copied (NULL: none).
 * The result is shared when all operands are. */
struct mf_val mf_record(struct mf_graph *g, const struct mf_op *op, const void *how, int n, const struct mf_val *x,
                        int rows, int cols);
/* The node of y, to set its parameters (else none) and aux_floats (else 0). Valid until the next node. */
struct mf_node *mf_record_of(struct mf_graph *g, struct mf_val y);
/* The rows of y that need not be computed are those of x. */
void mf_record_only(struct mf_graph *g, struct mf_val y, struct mf_val x);
/* Unless good, prints the operation and the shapes, and aborts: a bug in the caller. */
void mf_record_want(const struct mf_graph *g, bool good, const struct mf_op *op, int n, const struct mf_val *x);
bool mf_has_shape(const struct mf_graph *g, struct mf_val v, int rows, int cols);
bool mf_spreads(const struct mf_graph *g, struct mf_val v, int rows,
                int cols); /* v's rows over these; cols as they are */

/* A node's call with attributes and shapes alone, for mf_op.heads; the caller frees its x. */
struct mf_call mf_node_shapes(const struct mf_graph *g, int node);

#endif
