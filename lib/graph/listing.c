/* listing.c - a plan as a list of calls with places, for a device to compile. */
#include <stdlib.h>

#include "base/mem.h"
#include "graph/plan_priv.h"

static struct mf_site site(enum mf_space space, size_t at)
{
    return (struct mf_site){space, at};
}

static struct mf_site data_of(const struct mf_plan *p, int value)
{
    const struct mf_value *v = &p->g->value[value];
    return site(v->shared ? MF_IN_SHARED : MF_IN_TILE, p->data[v->root].at);
}

/* A tile writes the gradient of a shared value into its own space; the sum over all tiles is in the tail. */
static struct mf_site gradient_of(const struct mf_plan *p, int root, bool to_shared)
{
    if (!p->wanted[root])
        return site(MF_NOWHERE, 0);
    if (!to_shared)
        return site(MF_IN_TILE, p->grad[root].at);
    return p->tail[root] >= 0 ? site(MF_IN_TAIL, (size_t)p->tail[root]) : site(MF_IN_SHARED, p->grad[root].at);
}

/* As a call reads or writes it. */
static struct mf_operand operand(const struct mf_plan *p, int value, bool grad, bool by_shared)
{
    const struct mf_value *v = &p->g->value[value];
    return (struct mf_operand){
        .rows = v->rows,
        .cols = v->cols,
        .heads = p->heads[value],
        .shared = v->shared,
        .data = data_of(p, value),
        .grad = grad ? gradient_of(p, v->root, by_shared) : site(MF_NOWHERE, 0),
    };
}

static ptrdiff_t at_param(const struct mf_plan *p, int param, bool wanted)
{
    return wanted && param >= 0 && !p->params->p[param].bf16 ? (ptrdiff_t)p->params->p[param].at : -1;
}

static size_t floats_of(const struct mf_plan *p, int param)
{
    const struct mf_param *q = &p->params->p[param < 0 ? 0 : param];
    return param < 0 ? 0 : (size_t)q->rows * (size_t)q->cols;
}

static void list_call(const struct mf_plan *p, int i, struct mf_listed *c, struct mf_operand *x)
{
    const struct mf_graph *g = p->g;
    const struct mf_node *nd = &g->node[i];
    bool shared = mf_node_shared(g, i), back = mf_runs_back(p, i);
    *c = (struct mf_listed){
        .op = nd->op,
        .how = nd->how,
        .value = nd->y,
        .y = operand(p, nd->y, true, shared),
        .only = g->value[nd->y].only ? data_of(p, g->value[nd->y].only) : site(MF_NOWHERE, 0),
        .x = x,
        .n_x = nd->n_x,
        .shared = shared,
        .back = back,
        .W = at_param(p, nd->W, true),
        .b = at_param(p, nd->b, true),
        .dW = at_param(p, nd->W, mf_trained(g, nd->W)),
        .db = at_param(p, nd->b, mf_trained(g, nd->b)),
        .W_floats = floats_of(p, nd->W),
        .b_floats = floats_of(p, nd->b),
        .W_bf16 = nd->W < 0 ? NULL : p->params->p[nd->W].bf16,
        .ldw = nd->W < 0 ? 0 : p->params->p[nd->W].cols,
        .aux = nd->aux_floats && back ? site(shared ? MF_IN_SHARED : MF_IN_TILE, p->aux[i].at) : site(MF_NOWHERE, 0),
        .aux_floats = nd->aux_floats,
    };
    for (int k = 0; k < nd->n_x; k++)
        x[k] = operand(p, nd->x[k], back && mf_flows(g, nd, k), shared);
}

/* In the order of the run, the last operand of a call first, the first writer of a gradient sets it and later ones add.
 * Shared calls run backward after all tiles. */
static void mark_adds(struct mf_plan *p, struct mf_listed *call)
{
    const struct mf_graph *g = p->g;
    bool *written = mf_xcalloc((size_t)g->n_values, sizeof *written);
    for (int v = 1; v < g->n_values; v++)
        written[v] = g->value[v].scale != 0.0f && p->tail[v] < 0;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = g->node[i].n_x - 1; k >= 0; k--)
            if (call[i].x[k].grad.space) {
                int x = g->value[g->node[i].x[k]].root;
                bool summed = call[i].x[k].grad.space == MF_IN_TAIL; /* over the lanes, already */
                call[i].x[k].add = written[x] || summed;
                written[x] = written[x] || !summed;
            }
    free(written);
}

/* In backward order. A tile adds nothing to the parameters of shared calls. */
static void mark_firsts(struct mf_plan *p, struct mf_listed *call)
{
    const struct mf_graph *g = p->g;
    bool *seen = mf_xcalloc((size_t)p->params->n, sizeof *seen);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct mf_node *nd = &g->node[i];
        if (!call[i].back || call[i].shared)
            continue;
        if ((call[i].first_W = mf_trained(g, nd->W) && !seen[nd->W]))
            seen[nd->W] = true;
        if ((call[i].first_b = mf_trained(g, nd->b) && !seen[nd->b]))
            seen[nd->b] = true;
    }
    free(seen);
}

static void list_calls(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    size_t operands = 0;
    for (int i = 0; i < g->n_nodes; i++)
        operands += (size_t)g->node[i].n_x;
    struct mf_listed *call = mf_xcalloc((size_t)g->n_nodes, sizeof *call);
    struct mf_operand *x = p->operands = mf_xcalloc(operands, sizeof *x);
    for (int i = 0; i < g->n_nodes; x += g->node[i++].n_x)
        list_call(p, i, &call[i], x);
    mark_adds(p, call);
    mark_firsts(p, call);
    p->l.call = call;
    p->l.n_calls = g->n_nodes;
}

static void list_values(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    struct mf_value_at *value = mf_xcalloc((size_t)g->n_values, sizeof *value);
    for (int v = 1; v < g->n_values; v++) {
        const struct mf_value *x = &g->value[v];
        value[v] =
            (struct mf_value_at){x->root, x->rows, x->cols, p->heads[x->root], x->shared, x->node < 0, data_of(p, v)};
    }
    p->l.value = value;
    p->l.n_values = g->n_values;
}

static void list_losses(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    struct mf_loss_start *start = mf_xcalloc((size_t)g->n_values, sizeof *start);
    struct mf_tail *tail = mf_xcalloc((size_t)g->n_values, sizeof *tail);
    for (int v = 1; v < g->n_values; v++) {
        const struct mf_value *x = &g->value[v];
        if (p->wanted[v] && x->scale != 0.0f)
            start[p->l.n_starts++] = (struct mf_loss_start){gradient_of(p, v, x->shared), x->shared, x->scale};
        if (p->tail[v] >= 0)
            tail[p->l.n_tails++] = (struct mf_tail){site(MF_IN_TILE, p->grad[v].at), (size_t)p->tail[v],
                                                    (size_t)x->rows * (size_t)x->cols};
    }
    p->l.start = start;
    p->l.tail = tail;
}

static void list_pieces(struct mf_plan *p)
{
    const struct mf_params *ps = p->params;
    struct mf_piece *piece = mf_xcalloc((size_t)ps->n, sizeof *piece);
    for (int i = 0; i < ps->n; i++)
        piece[i] = (struct mf_piece){ps->p[i].group, mf_param_trained(ps, i), ps->p[i].at,
                                     (size_t)ps->p[i].rows * (size_t)ps->p[i].cols};
    p->l.piece = piece;
    p->l.n_pieces = ps->n;
    p->l.params = ps->size;
    p->l.trained = ps->trained;
}

void mf_plan_list(struct mf_plan *p)
{
    list_calls(p);
    list_values(p);
    list_losses(p);
    list_pieces(p);
}

void mf_plan_unlist(struct mf_plan *p)
{
    free(p->l.call);
    free(p->l.value);
    free(p->l.start);
    free(p->l.tail);
    free(p->l.piece);
    free(p->operands);
    p->l.n_starts = p->l.n_tails = 0;
}
