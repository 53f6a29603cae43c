/* layout.c - the values that a plan differentiates, their lifetimes and their places. */
#include <stdlib.h>

#include "base/mem.h"
#include "graph/plan_priv.h"

static int root(const struct mf_graph *g, int value)
{
    return g->value[value].root;
}

bool mf_flows(const struct mf_graph *g, const struct mf_node *nd, int i)
{
    return (nd->op->flows >> (i < 31 ? i : 31) & 1) && !g->value[nd->x[i]].detached;
}

bool mf_trained(const struct mf_graph *g, int param)
{
    return mf_param_trained(g->params, param);
}

/* A gradient is wanted where a loss depends on it and it depends on a trained parameter. */
static void find_wanted(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    bool *depends = mf_xcalloc((size_t)g->n_values, sizeof *depends);
    bool *reaches = mf_xcalloc((size_t)g->n_values, sizeof *reaches);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mf_node *nd = &g->node[i];
        bool any = mf_trained(g, nd->W) || mf_trained(g, nd->b);
        for (int k = 0; k < nd->n_x; k++)
            any = any || (mf_flows(g, nd, k) && depends[root(g, nd->x[k])]);
        depends[nd->y] = any;
    }
    for (int v = 1; v < g->n_values; v++)
        reaches[v] = g->value[v].scale != 0.0f;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = 0; k < g->node[i].n_x; k++)
            if (reaches[g->node[i].y] && mf_flows(g, &g->node[i], k))
                reaches[root(g, g->node[i].x[k])] = true;
    for (int v = 1; p->backward && v < g->n_values; v++)
        p->wanted[v] = depends[v] && reaches[v] && root(g, v) == v;
    free(depends);
    free(reaches);
}

/* Time: inputs come at 0, node i runs forward at 1 + i, losses start at N + 1, node i runs backward at 2N + 1 - i. */
static int forward_time(int node)
{
    return 1 + node;
}

static int backward_time(const struct mf_graph *g, int node)
{
    return 2 * g->n_nodes + 1 - node;
}

static int end_time(const struct mf_graph *g)
{
    return 2 * g->n_nodes + 2;
}

bool mf_runs_back(const struct mf_plan *p, int node)
{
    return p->wanted[p->g->node[node].y];
}

bool mf_node_shared(const struct mf_graph *g, int node)
{
    return g->value[g->node[node].y].shared;
}

static void touch(struct mf_place *place, int time)
{
    place->from = time < place->from ? time : place->from;
    place->to = time > place->to ? time : place->to;
}

size_t mf_floats_of(const struct mf_value *v, int n)
{
    return mf_whole_lines((size_t)v->rows * (size_t)v->cols * (v->shared ? 1 : (size_t)n));
}

static void find_lives(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    const struct mf_place unborn = {.from = 1 << 30, .to = -1};
    for (int v = 0; v < g->n_values; v++)
        p->data[v] = p->grad[v] = unborn;
    for (int v = 1; v < g->n_values; v++) {
        touch(&p->data[root(g, v)], g->value[v].node < 0 ? 0 : forward_time(g->value[v].node));
        if (p->wanted[v] && g->value[v].scale != 0.0f && !g->value[v].shared)
            touch(&p->grad[v], g->n_nodes + 1);
        if (p->tail[v] >= 0)
            touch(&p->grad[v], end_time(g));
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mf_node *nd = &g->node[i];
        bool back = mf_runs_back(p, i);
        p->aux[i] = unborn;
        if (mf_node_shared(g, i))
            continue;
        for (int k = 0; k < nd->n_x; k++) {
            int x = root(g, nd->x[k]);
            touch(&p->data[x], forward_time(i));
            if (back && !nd->op->frees_inputs)
                touch(&p->data[x], backward_time(g, i));
            if (back && mf_flows(g, nd, k) && p->wanted[x])
                touch(&p->grad[x], backward_time(g, i));
        }
        if (g->value[nd->y].only)
            touch(&p->data[g->value[nd->y].only], forward_time(i));
        if (back) {
            touch(&p->data[nd->y], backward_time(g, i));
            touch(&p->grad[nd->y], backward_time(g, i));
        }
        if (back && nd->aux_floats) {
            touch(&p->aux[i], forward_time(i));
            touch(&p->aux[i], backward_time(g, i));
        }
    }
}

/* Shared values that tiles read and that are differentiated: every lane sums the gradients of its tiles. */
static void find_tails(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    size_t end = p->params->trained;
    for (int v = 0; v < g->n_values; v++)
        p->tail[v] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_x; k++) {
            int x = root(g, g->node[i].x[k]);
            if (mf_node_shared(g, i) || !mf_runs_back(p, i) || !mf_flows(g, &g->node[i], k) || !p->wanted[x] ||
                !g->value[x].shared || p->tail[x] >= 0)
                continue;
            p->tail[x] = (ptrdiff_t)end;
            end += mf_floats_of(&g->value[x], 1);
        }
    p->l.lane = end;
}

static int by_size(const void *a, const void *b)
{
    const struct mf_place *x = *(struct mf_place *const *)a, *y = *(struct mf_place *const *)b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* The largest first, each at the lowest place that is free while it lives. Returns the arena's floats. */
static size_t lay_out(struct mf_place **all, int n)
{
    size_t end = 0;
    qsort(all, (size_t)n, sizeof(struct mf_place *), by_size);
    for (int i = 0; i < n; i++) {
        size_t at = 0;
        for (int j = 0; j < i; j++) { /* move above a place that overlaps in time and space, and start again */
            const struct mf_place *o = all[j];
            if (o->from <= all[i]->to && all[i]->from <= o->to && o->at < at + all[i]->size && at < o->at + o->size) {
                at = o->at + o->size;
                j = -1;
            }
        }
        all[i]->at = at;
        end = at + all[i]->size > end ? at + all[i]->size : end;
    }
    return end;
}

size_t mf_plan_place(struct mf_plan *p, int tile)
{
    const struct mf_graph *g = p->g;
    struct mf_place **all = mf_xcalloc((size_t)(2 * g->n_values + g->n_nodes), sizeof *all);
    int n = 0;
    for (int v = 1; v < g->n_values; v++) {
        p->data[v].size = p->grad[v].size = mf_floats_of(&g->value[v], tile);
        if (p->data[v].to >= 0 && !g->value[v].shared)
            all[n++] = &p->data[v];
        if (p->grad[v].to >= 0)
            all[n++] = &p->grad[v];
    }
    for (int i = 0; i < g->n_nodes; i++) {
        p->aux[i].size = mf_whole_lines(g->node[i].aux_floats * (size_t)tile);
        if (p->aux[i].to >= 0)
            all[n++] = &p->aux[i];
    }
    size_t end = lay_out(all, n);
    free(all);
    return end;
}

/* No place is used twice: shared values are small, and stay. */
size_t mf_plan_place_shared(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    size_t end = 0;
    for (int v = 1; v < g->n_values; v++) {
        if (!g->value[v].shared || root(g, v) != v)
            continue;
        p->data[v].at = end;
        end += mf_floats_of(&g->value[v], 1);
        if (p->wanted[v] && p->tail[v] < 0) {
            p->grad[v].at = end;
            end += mf_floats_of(&g->value[v], 1);
        }
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (mf_node_shared(g, i) && mf_runs_back(p, i)) {
            p->aux[i].at = end;
            end += mf_whole_lines(g->node[i].aux_floats);
        }
    return end;
}

/* Heads that operand k of a node, or its result (k = -1), may be stored in. */
static int heads_of(const struct mf_graph *g, int node, int k)
{
    const struct mf_op *op = g->node[node].op;
    if (!op->heads)
        return 1;
    struct mf_call c = mf_node_shapes(g, node);
    int heads = op->heads(&c, k);
    free(c.x);
    return heads;
}

/* Heads in which a node reads operand k, where the operand's node writes as many; else 1. */
static int heads_between(const struct mf_graph *g, int node, int k)
{
    int value = g->node[node].x[k], from = g->value[value].node, heads = heads_of(g, node, k);
    return from >= 0 && g->node[from].y == value && heads == heads_of(g, from, -1) ? heads : 1;
}

/* A value is stored head by head where all its readers allow it: they then read memory in sequence. */
static void find_heads(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    for (int pass = 0; pass < 2; pass++) /* first by one reader that allows it, then not where another does not */
        for (int i = 0; i < g->n_nodes; i++)
            for (int k = 0; k < g->node[i].n_x; k++)
                if ((heads_between(g, i, k) > 1) == (pass == 0))
                    p->heads[root(g, g->node[i].x[k])] = heads_between(g, i, k);
}

void mf_plan_analyse(struct mf_plan *p)
{
    find_wanted(p);
    find_heads(p);
    find_tails(p);
    find_lives(p);
}
