/* record.h - the recorded graph, as graph.c writes it and plan.c reads it. */
#ifndef MF_GRAPH_RECORD_H
#define MF_GRAPH_RECORD_H

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
    enum mf_op op;
    int y;              /* value */
    int n_x, *x;        /* values */
    unsigned back;      /* bit i: a gradient may flow into x[i]; bit 31: into all from there */
    struct mf_call how; /* act, from, limit, ...: the attributes alone */
    int W, b;           /* parameters of a linear; -1: none */
};

struct mf_graph {
    struct mf_params *params;
    int n_values;
    struct mf_value *value; /* 0 is MF_NONE */
    int n_nodes;
    struct mf_node *node;
};

/* One node more; its result is shared when all that it reads is. The node is valid until the next one. */
struct mf_val mf_record(struct mf_graph *g, enum mf_op op, int n, const struct mf_val *x, unsigned back, int rows,
                        int cols, struct mf_node **made);
/* Unless good, a bug in the caller: say which op and which shapes, and end. */
void mf_record_want(const struct mf_graph *g, bool good, const char *op, int n, const struct mf_val *x);

#endif
