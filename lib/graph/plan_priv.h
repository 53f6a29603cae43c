/* plan_priv.h - a plan: differentiated values, lifetimes, places, the listing (private to lib/graph). */
#ifndef MF_GRAPH_PLAN_PRIV_H
#define MF_GRAPH_PLAN_PRIV_H

#include "graph/engine.h"
#include "graph/record.h"

/* Of a value, a gradient or a node's aux: floats from the base of its space; its lifetime, from the first to the last
 * time (layout.c) at which a tile uses it. Places in the shared space have no lifetime. */
struct mf_place {
    size_t at, size;
    int from, to; /* to < from: never used */
};

struct mf_plan {
    struct mf_engine *e;
    struct mf_graph *g; /* the caller's; it outlives the plan */
    struct mf_params *params;
    bool backward;

    struct mf_place *data, *grad; /* by value */
    struct mf_place *aux;         /* by node */
    bool *wanted;                 /* by value: its gradient is computed */
    int *heads;                   /* by value: above 1, stored head by head */
    ptrdiff_t *tail;              /* by value: of a shared gradient that tiles add to, floats into a lane; else -1 */

    struct mf_listing l;
    struct mf_operand *operands; /* of its calls */
    struct mf_program *program;
    struct mf_mirror *weights; /* NULL: an outline */

    struct mf_set { /* by value: of a shared input, its floats; NULL: not set yet */
        float *data;
        bool sent;
    } * set;
    uint64_t sets;   /* version of all shared inputs */
    float *grads;    /* the host's copy; NULL until asked for */
    size_t *segment; /* the listing's */
};

/* layout.c */
void mf_plan_analyse(struct mf_plan *p);           /* fills wanted, heads, tail, l.lane and the lives */
size_t mf_plan_place_shared(struct mf_plan *p);    /* returns the floats of the shared space */
size_t mf_plan_place(struct mf_plan *p, int tile); /* places all of a tile; returns its floats */
bool mf_runs_back(const struct mf_plan *p, int node);
bool mf_node_shared(const struct mf_graph *g, int node);                  /* it runs once a run, not once a tile */
bool mf_flows(const struct mf_graph *g, const struct mf_node *nd, int i); /* a gradient flows into operand i */
bool mf_trained(const struct mf_graph *g, int param);
size_t mf_floats_of(const struct mf_value *v, int n);

/* listing.c: after all is placed. */
void mf_plan_list(struct mf_plan *p);
void mf_plan_unlist(struct mf_plan *p);

#endif
