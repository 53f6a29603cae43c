/* graph.c - recording: shapes are inferred and checked here, once. */
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
    for (int i = 0; i < g->n_nodes; i++)
        free(g->node[i].x);
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
    g->value[g->n_values] = (struct mf_value){rows, cols, shared, node, g->n_values, false, 0.0f};
    return (struct mf_val){g->n_values++};
}

void mf_record_want(const struct mf_graph *g, bool good, const char *op, int n, const struct mf_val *x)
{
    if (good)
        return;
    fprintf(stderr, "mf_%s: shapes do not fit:", op);
    for (int i = 0; i < n; i++)
        if (x[i].id)
            fprintf(stderr, " %s(%d, %d)", at(g, x[i])->shared ? "shared " : "", mf_rows(g, x[i]), mf_cols(g, x[i]));
    fputc('\n', stderr);
    abort();
}

struct mf_val mf_record(struct mf_graph *g, enum mf_op op, int n, const struct mf_val *x, unsigned back, int rows,
                        int cols, struct mf_node **made)
{
    bool shared = true;
    int *ids = mf_xcalloc((size_t)n, sizeof *ids), k = 0;
    for (int i = 0; i < n; i++)
        if (x[i].id) {
            shared = shared && at(g, x[i])->shared;
            ids[k++] = x[i].id;
        }
    struct mf_val y = value(g, rows, cols, shared, g->n_nodes);
    g->node = mf_xrealloc(g->node, (size_t)g->n_nodes + 1, sizeof *g->node);
    g->node[g->n_nodes] = (struct mf_node){op, y.id, k, ids, back, {.act = MF_ACT_NONE}, -1, -1};
    *made = &g->node[g->n_nodes++];
    return y;
}

static bool is(const struct mf_graph *g, struct mf_val v, int rows, int cols)
{
    return mf_rows(g, v) == rows && mf_cols(g, v) == cols;
}

static bool spreads(const struct mf_graph *g, struct mf_val v, int rows, int cols)
{
    return rows % mf_rows(g, v) == 0 && mf_cols(g, v) == cols;
}

static size_t floats(const struct mf_graph *g, struct mf_val v)
{
    return (size_t)mf_rows(g, v) * (size_t)mf_cols(g, v);
}

static void set_act(const struct mf_graph *g, struct mf_node *made, struct mf_val y, enum mf_act act)
{
    made->how.act = act;
    made->how.keep = mf_act_keeps(act) ? floats(g, y) : 0;
}

struct mf_val mf_input(struct mf_graph *g, int rows, int cols)
{
    return value(g, rows, cols, false, -1);
}

struct mf_val mf_shared(struct mf_graph *g, int rows, int cols)
{
    return value(g, rows, cols, true, -1);
}

static struct mf_val sum(struct mf_graph *g, const char *name, int n, const struct mf_val *x, enum mf_act act)
{
    struct mf_node *made;
    int rows = 1, cols = mf_cols(g, x[0]);
    for (int i = 0; i < n; i++)
        if (x[i].id && mf_rows(g, x[i]) > rows)
            rows = mf_rows(g, x[i]);
    for (int i = 0; i < n; i++)
        mf_record_want(g, !x[i].id || spreads(g, x[i], rows, cols), name, n, x);
    struct mf_val y = mf_record(g, MF_OP_SUM, n, x, ~0u, rows, cols, &made);
    set_act(g, made, y, act);
    return y;
}

struct mf_val mf_linear(struct mf_graph *g, struct mf_val x, int W, int from, int b, struct mf_val r1, struct mf_val r2,
                        enum mf_act act)
{
    const struct mf_param *w = &g->params->p[W];
    struct mf_val all[] = {x, r1, r2};
    int rows = mf_rows(g, x), cols = w->rows;
    bool apart = false; /* x has fewer rows than the result: its product is made once, then spread */
    mf_record_want(g, from >= 0 && from + mf_cols(g, x) <= w->cols && (b < 0 || g->params->p[b].cols == cols), "linear",
                   3, all);
    for (int i = 1; i < 3; i++)
        if (all[i].id) {
            apart = apart || (mf_is_shared(g, x) && !mf_is_shared(g, all[i])) || mf_rows(g, all[i]) > rows;
            mf_record_want(g, mf_cols(g, all[i]) == cols, "linear", 3, all);
        }
    if (apart)
        return sum(g, "linear", 3,
                   (struct mf_val[]){mf_linear(g, x, W, from, b, MF_NONE, MF_NONE, MF_ACT_NONE), r1, r2}, act);
    for (int i = 1; i < 3; i++)
        mf_record_want(g, !all[i].id || spreads(g, all[i], rows, cols), "linear", 3, all);
    struct mf_node *made;
    struct mf_val y = mf_record(g, MF_OP_LINEAR, 3, all, ~0u, rows, cols, &made);
    set_act(g, made, y, act);
    made->how.from = from;
    made->W = W;
    made->b = b;
    return y;
}

struct mf_val mf_activate(struct mf_graph *g, struct mf_val x, enum mf_act act)
{
    return sum(g, "activate", 1, &x, act);
}

struct mf_val mf_add(struct mf_graph *g, struct mf_val a, struct mf_val b)
{
    return sum(g, "add", 2, (struct mf_val[]){a, b}, MF_ACT_NONE);
}

struct mf_val mf_concat(struct mf_graph *g, int n, const struct mf_val *x)
{
    struct mf_node *made;
    int rows = 1, cols = 0;
    for (int i = 0; i < n; i++) {
        rows = mf_rows(g, x[i]) > rows ? mf_rows(g, x[i]) : rows;
        cols += mf_cols(g, x[i]);
    }
    for (int i = 0; i < n; i++)
        mf_record_want(g, rows % mf_rows(g, x[i]) == 0, "concat", n, x);
    return mf_record(g, MF_OP_CONCAT, n, x, ~0u, rows, cols, &made);
}

struct mf_val mf_stack(struct mf_graph *g, int n, const struct mf_val *x)
{
    struct mf_node *made;
    int rows = 0;
    for (int i = 0; i < n; i++) {
        mf_record_want(g, mf_cols(g, x[i]) == mf_cols(g, x[0]), "stack", n, x);
        rows += mf_rows(g, x[i]);
    }
    return mf_record(g, MF_OP_STACK, n, x, ~0u, rows, mf_cols(g, x[0]), &made);
}

struct mf_val mf_slice_rows(struct mf_graph *g, struct mf_val x, int from, int n)
{
    struct mf_node *made;
    mf_record_want(g, from >= 0 && n > 0 && from + n <= mf_rows(g, x), "slice_rows", 1, &x);
    if (n == mf_rows(g, x))
        return x;
    struct mf_val y = mf_record(g, MF_OP_ROWS, 1, &x, 1, n, mf_cols(g, x), &made);
    made->how.from = from;
    return y;
}

struct mf_val mf_slice_cols(struct mf_graph *g, struct mf_val x, int from, int n)
{
    struct mf_node *made;
    mf_record_want(g, from >= 0 && n > 0 && from + n <= mf_cols(g, x), "slice_cols", 1, &x);
    if (n == mf_cols(g, x))
        return x;
    struct mf_val y = mf_record(g, MF_OP_COLS, 1, &x, 1, mf_rows(g, x), n, &made);
    made->how.from = from;
    return y;
}

/* Another name for the floats of x. */
static struct mf_val alias(struct mf_graph *g, struct mf_val x, int rows, int cols, bool detached)
{
    struct mf_val y = value(g, rows, cols, mf_is_shared(g, x), at(g, x)->node);
    g->value[y.id].root = at(g, x)->root;
    g->value[y.id].detached = at(g, x)->detached || detached;
    return y;
}

struct mf_val mf_reshape(struct mf_graph *g, struct mf_val x, int rows, int cols)
{
    mf_record_want(g, rows * cols == mf_rows(g, x) * mf_cols(g, x), "reshape", 1, &x);
    return alias(g, x, rows, cols, false);
}

struct mf_val mf_detach(struct mf_graph *g, struct mf_val x)
{
    return alias(g, x, mf_rows(g, x), mf_cols(g, x), true);
}

struct mf_val mf_sinusoid(struct mf_graph *g, struct mf_val t, float scale, int dim)
{
    struct mf_node *made;
    mf_record_want(g, mf_cols(g, t) == 1 && dim % 2 == 0, "sinusoid", 1, &t);
    struct mf_val y = mf_record(g, MF_OP_SINUSOID, 1, &t, 0, mf_rows(g, t), dim, &made);
    made->how.scale = scale;
    return y;
}

struct mf_val mf_weigh(struct mf_graph *g, struct mf_val x, struct mf_val weight)
{
    struct mf_node *made;
    struct mf_val all[] = {x, weight};
    mf_record_want(g, is(g, weight, 1, 1), "weigh", 2, all);
    return mf_record(g, MF_OP_WEIGH, 2, all, 1, mf_rows(g, x), mf_cols(g, x), &made);
}

struct mf_val mf_flow_mean(struct mf_graph *g, struct mf_val x, struct mf_val v, struct mf_val coef, float limit)
{
    struct mf_node *made;
    struct mf_val all[] = {x, v, coef};
    int rows = mf_rows(g, v), cols = mf_cols(g, v);
    mf_record_want(g, is(g, x, rows, cols) && spreads(g, coef, rows, 3), "flow_mean", 3, all);
    struct mf_val y = mf_record(g, MF_OP_FLOW_MEAN, 3, all, 3, rows, cols, &made);
    made->how.limit = limit;
    return y;
}

struct mf_val mf_noise_std(struct mf_graph *g, struct mf_val u, struct mf_val bounds)
{
    struct mf_node *made;
    struct mf_val all[] = {u, bounds};
    mf_record_want(g, is(g, bounds, 1, 2) && mf_is_shared(g, bounds), "noise_std", 2, all);
    return mf_record(g, MF_OP_NOISE_STD, 2, all, 1, mf_rows(g, u), mf_cols(g, u), &made);
}

struct mf_val mf_flow_noise(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val coef,
                            struct mf_val eps, float clip, float limit)
{
    struct mf_node *made;
    struct mf_val all[] = {mean, eps, coef, std};
    int rows = mf_rows(g, mean), cols = mf_cols(g, mean);
    mf_record_want(g, is(g, eps, rows, cols) && spreads(g, coef, rows, 3) && (!std.id || spreads(g, std, rows, cols)),
                   "flow_noise", 4, all);
    struct mf_val y = mf_record(g, MF_OP_FLOW_NOISE, 4, all, 0, rows, cols, &made);
    made->how.clip = clip;
    made->how.limit = limit;
    return y;
}

struct mf_val mf_flow_logprob(struct mf_graph *g, struct mf_val next, struct mf_val mean, struct mf_val std,
                              struct mf_val coef)
{
    struct mf_node *made;
    struct mf_val all[] = {next, mean, coef, std};
    int rows = mf_rows(g, mean), cols = mf_cols(g, mean);
    mf_record_want(g, is(g, next, rows, cols) && spreads(g, coef, rows, 3) && (!std.id || spreads(g, std, rows, cols)),
                   "flow_logprob", 4, all);
    return mf_record(g, MF_OP_FLOW_LOGPROB, 4, all, 1 | 2 | 8, rows, cols, &made);
}

struct mf_val mf_flow_entropy(struct mf_graph *g, struct mf_val std, float scale)
{
    struct mf_node *made;
    struct mf_val y = mf_record(g, MF_OP_FLOW_ENTROPY, 1, &std, 1, 1, 1, &made);
    made->how.scale = scale;
    return y;
}

struct mf_val mf_reduce(struct mf_graph *g, struct mf_val elements, struct mf_val first, enum mf_reduce how, int A,
                        int C, int offset, float scale)
{
    struct mf_node *made;
    struct mf_val all[] = {elements, first};
    int D = mf_cols(g, elements);
    int cols = how == MF_REDUCE_TOKEN ? C * A : how == MF_REDUCE_ACTION ? C : 1;
    mf_record_want(g, !mf_is_shared(g, elements) && (!first.id || (is(g, first, 1, D) && !mf_is_shared(g, first))),
                   "reduce", 2, all);
    mf_record_want(g, how == MF_REDUCE_ALL || (offset >= 0 && A > 0 && (offset + C) * A <= D), "reduce", 2, all);
    struct mf_val y = mf_record(g, MF_OP_REDUCE, 2, all, 1, 1, cols, &made);
    made->how.how = how;
    made->how.A = A;
    made->how.C = C;
    made->how.offset = offset;
    made->how.scale = scale;
    return y;
}

static bool per_sample(const struct mf_graph *g, int n, const struct mf_val *x)
{
    bool all = true;
    for (int i = 0; i < n; i++)
        all = all && !mf_is_shared(g, x[i]);
    return all;
}

struct mf_val mf_ppo_loss(struct mf_graph *g, struct mf_val logp, struct mf_val old, struct mf_val adv,
                          struct mf_val weight, struct mf_val knobs)
{
    struct mf_node *made;
    struct mf_val all[] = {logp, old, adv, weight, knobs};
    int E = mf_cols(g, logp);
    mf_record_want(g,
                   is(g, logp, 1, E) && is(g, old, 1, E) && is(g, weight, 1, E) && is(g, adv, 1, 1) &&
                       per_sample(g, 4, all) && is(g, knobs, 1, 4) && mf_is_shared(g, knobs),
                   "ppo_loss", 5, all);
    return mf_record(g, MF_OP_PPO_LOSS, 5, all, 1, 1, 1, &made);
}

struct mf_val mf_value_loss(struct mf_graph *g, struct mf_val v, struct mf_val ret, struct mf_val old,
                            struct mf_val weight, struct mf_val knobs)
{
    struct mf_node *made;
    struct mf_val all[] = {v, ret, old, weight, knobs};
    mf_record_want(g,
                   is(g, v, 1, 1) && is(g, ret, 1, 1) && is(g, old, 1, 1) && is(g, weight, 1, 1) &&
                       per_sample(g, 4, all) && is(g, knobs, 1, 4) && mf_is_shared(g, knobs),
                   "value_loss", 5, all);
    return mf_record(g, MF_OP_VALUE_LOSS, 5, all, 1, 1, 1, &made);
}

struct mf_val mf_mse(struct mf_graph *g, struct mf_val a, struct mf_val b, struct mf_val weight)
{
    struct mf_node *made;
    struct mf_val all[] = {a, b, weight};
    mf_record_want(g, is(g, b, mf_rows(g, a), mf_cols(g, a)) && is(g, weight, 1, 1) && !mf_is_shared(g, a), "mse", 3,
                   all);
    return mf_record(g, MF_OP_MSE, 3, all, 1, 1, 1, &made);
}

void mf_loss(struct mf_graph *g, struct mf_val v, float scale)
{
    mf_record_want(g, is(g, v, 1, 1), "loss", 1, &v);
    g->value[at(g, v)->root].scale += scale;
}
