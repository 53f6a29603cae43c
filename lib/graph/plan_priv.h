/* plan_priv.h - a compiled plan, as plan.c makes it and run.c runs it. */
#ifndef MF_GRAPH_PLAN_PRIV_H
#define MF_GRAPH_PLAN_PRIV_H

#include "cpu/fast.h"
#include "graph/engine.h"
#include "graph/record.h"

enum {
    MF_LANES_MAX = 64,
    MF_STRIP = 64,    /* floats that are summed over the lanes at once */
    MF_SLICE = 16384, /* floats that one worker sums at a time, a multiple of MF_STRIP */
};

struct mf_weights_use { /* one packed piece of a parameter, and its calls */
    int W;
    struct mf_packing c;
    size_t at; /* floats from pack_room's base */
    struct mf_pack pack;
};

/* Of a value, a gradient or of what a node keeps: floats from the arena's base, live from..to; of what is shared, from
 * the base of shared, and always there. */
struct mf_place {
    size_t at, size;
    int from, to; /* to < from: not there */
};

struct mf_first { /* in the order of a run backward: no node before reaches the parameter */
    bool W, b;
};

struct mf_plan {
    struct mf_engine *e;
    struct mf_graph *g; /* the caller's; it outlives the plan */
    struct mf_params *params;
    bool backward, tile_given, outline;
    int tile, lanes; /* samples that the arena has room for */
    double macs;     /* multiply-adds of one sample, forward */

    struct mf_place *data, *grad; /* by value */
    struct mf_place *aux;         /* by node */
    bool *wanted;                 /* by value: its gradient is computed */
    int *heads;                   /* by value: above 1, it lies head by head */
    size_t arena_size, work_size; /* floats, of one worker */
    float **arena;                /* by worker; then its scratch */
    float *shared;                /* shared values, the gradients that shared nodes alone read, and what those keep */
    size_t shared_size;           /* floats */
    bool *is_set;                 /* by value */
    uint64_t shared_of;           /* params->version that shared values were computed from; ~0: none */

    struct mf_cpu_call **call; /* by worker, by node */
    struct mf_crew crew;
    struct mf_tensor **operands;

    int n_packs;
    struct mf_weights_use *packs;
    float *pack_room; /* of all packs */
    size_t pack_size; /* floats of it */
    uint64_t packed;  /* params->version that the packs hold; ~0: none */

    size_t lane_size;       /* floats: params->size and the tails, up to whole strips */
    float *lane, *grads;    /* (lanes, lane_size); (lane_size) */
    ptrdiff_t *tail;        /* by value: where a lane sums what tiles add to a shared gradient, or -1 */
    bool *reached;          /* by slice: tiles write there */
    struct mf_first *first; /* by node */
    int *fetch_of, *fetch_next, n_fetch_next; /* by value: its first fetch, or -1; by fetch: the next of that value */
};

/* layout.c */
void mf_plan_analyse(struct mf_plan *p);                      /* fills wanted, heads, tail, lane_size and the lives */
size_t mf_plan_place_shared(struct mf_plan *p);               /* returns the floats of shared */
size_t mf_plan_place(struct mf_plan *p, int tile);            /* places them all; returns the arena's floats */
size_t mf_plan_tile(const struct mf_plan *p, size_t n);       /* run.c: of a run of n samples */
size_t mf_plan_touched(const struct mf_plan *p, size_t tile); /* bytes of a worker's arena, in whole pages */
size_t mf_floats_of(const struct mf_value *v, int n);
bool mf_runs_back(const struct mf_plan *p, int node);
bool mf_node_shared(const struct mf_graph *g, int node);                  /* it runs once a run, not once a tile */
bool mf_flows(const struct mf_graph *g, const struct mf_node *nd, int i); /* a gradient flows into operand i */
bool mf_trained(const struct mf_graph *g, int param);

bool mf_plan_together(const struct mf_plan *p, size_t n); /* run.c: workers divide the operations of n samples */

float *mf_big_alloc(size_t floats, const char *what, struct mf_err *err); /* zero, in huge pages; NULL: *err */
void mf_big_free(float *p, size_t floats);

#endif
