/* graph.c - recording. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/record.h"

struct mf_graph *mf_graph_new(struct mf_params *ps)
{
    struct mf_graph *g = mf_xcalloc(1, sizeof *g);
    g->params = ps;
    g->n_values = 1;
    g->value = mf_xcalloc(1, sizeof *g->value);
    return g;
}

void mf_graph_free(struct mf_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_nodes; i++) {
        free(g->node[i].x);
        free(g->node[i].how);
    }
    free(g->node);
    free(g->value);
    free(g);
}

struct mf_params *mf_graph_params(const struct mf_graph *g)
{
    return g->params;
}

static const struct mf_value *at(const struct mf_graph *g, struct mf_val v)
{
    if (v.id < 1 || v.id >= g->n_values)
        abort();
    return &g->value[v.id];
}

int mf_rows(const struct mf_graph *g, struct mf_val v)
{
    return at(g, v)->rows;
}

int mf_cols(const struct mf_graph *g, struct mf_val v)
{
    return at(g, v)->cols;
}

bool mf_is_shared(const struct mf_graph *g, struct mf_val v)
{
    return at(g, v)->shared;
}

static struct mf_val value(struct mf_graph *g, int rows, int cols, bool shared, int node)
{
    if (rows < 1 || cols < 1)
        abort();
    g->value = mf_xrealloc(g->value, (size_t)g->n_values + 1, sizeof *g->value);
    g->value[g->n_values] = (struct mf_value){rows, cols, shared, node, g->n_values, false, 0.0f, 0};
    return (struct mf_val){g->n_values++};
}

static void abort_of(const struct mf_graph *g, const char *name, int n, const struct mf_val *x)
{
    fprintf(stderr, "mf_%s: shapes do not fit:", name);
    for (int i = 0; i < n; i++)
        if (x[i].id)
            fprintf(stderr, " %s(%d, %d)", at(g, x[i])->shared ? "shared " : "", mf_rows(g, x[i]), mf_cols(g, x[i]));
    fputc('\n', stderr);
    abort();
}

void mf_record_want(const struct mf_graph *g, bool good, const struct mf_op *op, int n, const struct mf_val *x)
{
    if (!good)
        abort_of(g, op->name, n, x);
}

void mf_record_only(struct mf_graph *g, struct mf_val y, struct mf_val x)
{
    g->value[y.id].only = at(g, x)->only;
}

/* The mask of the operands that have one is that of the result, where it is computed row by row. */
static void inherit(struct mf_graph *g, struct mf_val y, int n, const int *x)
{
    int only = 0;
    for (int i = 0; i < n && !only; i++)
        only = g->value[x[i]].only;
    const struct mf_op *op = g->node[at(g, y)->node].op;
    if (!only || !op->by_rows)
        return;
    struct mf_call c = mf_node_shapes(g, at(g, y)->node);
    if (op->by_rows(&c))
        g->value[y.id].only = only;
    free(c.x);
}

struct mf_val mf_record(struct mf_graph *g, const struct mf_op *op, const void *how, int n, const struct mf_val *x,
                        int rows, int cols)
{
    bool shared = true;
    int *ids = mf_xcalloc((size_t)n, sizeof *ids), k = 0;
    for (int i = 0; i < n; i++)
        if (x[i].id) {
            shared = shared && at(g, x[i])->shared;
            ids[k++] = x[i].id;
        }
    void *copy = mf_xcalloc(1, op->attributes);
    if (op->attributes)
        memcpy(copy, how, op->attributes);
    struct mf_val y = value(g, rows, cols, shared, g->n_nodes);
    g->node = mf_xrealloc(g->node, (size_t)g->n_nodes + 1, sizeof *g->node);
    g->node[g->n_nodes++] = (struct mf_node){.op = op, .how = copy, .y = y.id, .n_x = k, .x = ids, .W = -1, .b = -1};
    inherit(g, y, k, ids);
    return y;
}

struct mf_node *mf_record_of(struct mf_graph *g, struct mf_val y)
{
    return &g->node[at(g, y)->node];
}

bool mf_has_shape(const struct mf_graph *g, struct mf_val v, int rows, int cols)
{
    return mf_rows(g, v) == rows && mf_cols(g, v) == cols;
}

bool mf_spreads(const struct mf_graph *g, struct mf_val v, int rows, int cols)
{
    return rows % mf_rows(g, v) == 0 && mf_cols(g, v) == cols;
}

static struct mf_tensor shape_of(const struct mf_value *v)
{
    return (struct mf_tensor){.rows = v->rows, .cols = v->cols, .shared = v->shared};
}

struct mf_call mf_node_shapes(const struct mf_graph *g, int node)
{
    const struct mf_node *nd = &g->node[node];
    struct mf_call c = {.how = nd->how,
                        .y = shape_of(&g->value[nd->y]),
                        .x = mf_xcalloc((size_t)nd->n_x, sizeof *c.x),
                        .n_x = nd->n_x,
                        .ldw = nd->W < 0 ? 0 : g->params->p[nd->W].cols,
                        .dW = -1,
                        .db = -1};
    for (int k = 0; k < nd->n_x; k++)
        c.x[k] = shape_of(&g->value[nd->x[k]]);
    return c;
}

struct mf_val mf_input(struct mf_graph *g, int rows, int cols)
{
    return value(g, rows, cols, false, -1);
}

struct mf_val mf_shared(struct mf_graph *g, int rows, int cols)
{
    return value(g, rows, cols, true, -1);
}

/* Another name for the floats of x. */
static struct mf_val alias(struct mf_graph *g, struct mf_val x, int rows, int cols, bool detached)
{
    struct mf_val y = value(g, rows, cols, mf_is_shared(g, x), at(g, x)->node);
    g->value[y.id].root = at(g, x)->root;
    g->value[y.id].detached = at(g, x)->detached || detached;
    g->value[y.id].only = rows == mf_rows(g, x) ? at(g, x)->only : 0;
    return y;
}

struct mf_val mf_reshape(struct mf_graph *g, struct mf_val x, int rows, int cols)
{
    if (rows * cols != mf_rows(g, x) * mf_cols(g, x))
        abort_of(g, "reshape", 1, &x);
    return alias(g, x, rows, cols, false);
}

struct mf_val mf_detach(struct mf_graph *g, struct mf_val x)
{
    return alias(g, x, mf_rows(g, x), mf_cols(g, x), true);
}

struct mf_val mf_only(struct mf_graph *g, struct mf_val x, struct mf_val mask)
{
    if (!mf_has_shape(g, mask, mf_rows(g, x), 1) || mf_is_shared(g, x) || mf_is_shared(g, mask))
        abort_of(g, "only", 2, (struct mf_val[]){x, mask});
    struct mf_val y = alias(g, x, mf_rows(g, x), mf_cols(g, x), false);
    g->value[y.id].only = at(g, mask)->root;
    return y;
}

void mf_loss(struct mf_graph *g, struct mf_val v, float scale)
{
    if (!mf_has_shape(g, v, 1, 1))
        abort_of(g, "loss", 1, &v);
    g->value[at(g, v)->root].scale += scale;
}
