/* transformer.c - recording what transformers add. */
#include "graph/record.h"

struct mf_val mf_param_value(struct mf_graph *g, int W)
{
    struct mf_node *made;
    const struct mf_param *w = &g->params->p[W];
    struct mf_val y = mf_record(g, MF_OP_PARAM, 0, NULL, 0, w->rows, w->cols, &made);
    made->W = W;
    return y;
}

struct mf_val mf_pool(struct mf_graph *g, struct mf_val x, int n, enum mf_pool how)
{
    struct mf_node *made;
    int rows = mf_rows(g, x), cols = mf_cols(g, x);
    mf_record_want(g, n > 0 && rows % n == 0, "pool", 1, &x);
    if (n == rows)
        return x;
    struct mf_val y = mf_record(g, MF_OP_POOL, 1, &x, 1, n, cols, &made);
    made->how.pool = how;
    made->how.keep = how == MF_POOL_MAX ? (size_t)n * (size_t)cols : 0;
    return y;
}

struct mf_val mf_norm(struct mf_graph *g, struct mf_val x, int from, int cols, int heads, enum mf_norm how, int W,
                      int b, float eps)
{
    struct mf_node *made;
    const struct mf_param *p = g->params->p;
    bool fits = from >= 0 && heads > 0 && cols % heads == 0 && from + cols <= mf_cols(g, x);
    mf_record_want(g, fits && (W < 0 || p[W].cols == cols / heads) && (b < 0 || p[b].cols == cols / heads), "norm", 1,
                   &x);
    struct mf_val y = mf_record(g, MF_OP_NORM, 1, &x, 1, mf_rows(g, x), cols, &made);
    made->how.from = from;
    made->how.heads = heads;
    made->how.norm = how;
    made->how.eps = eps;
    made->how.blocks = mf_rows(g, x);
    made->how.keep = (size_t)mf_rows(g, x) * (size_t)heads * 2; /* the mean and the factor */
    made->W = W;
    made->b = b;
    return y;
}

/* n parts of x's width from column `from` of m, whose rows spread over x's. */
static void want_parts(const struct mf_graph *g, const char *op, int n_all, const struct mf_val *all, struct mf_val x,
                       struct mf_val m, int from, int n)
{
    mf_record_want(g,
                   from >= 0 && from + n * mf_cols(g, x) <= mf_cols(g, m) && mf_rows(g, x) % mf_rows(g, m) == 0 &&
                       (!mf_is_shared(g, x) || mf_is_shared(g, m)),
                   op, n_all, all);
}

struct mf_val mf_modulate(struct mf_graph *g, struct mf_val x, struct mf_val m, int from)
{
    struct mf_node *made;
    struct mf_val all[] = {x, m};
    want_parts(g, "modulate", 2, all, x, m, from, 2);
    struct mf_val y = mf_record(g, MF_OP_MODULATE, 2, all, 3, mf_rows(g, x), mf_cols(g, x), &made);
    made->how.from = from;
    return y;
}

struct mf_val mf_gate(struct mf_graph *g, struct mf_val h, struct mf_val x, struct mf_val m, int from)
{
    struct mf_node *made;
    struct mf_val all[] = {h, x, m};
    want_parts(g, "gate", 3, all, x, m, from, 1);
    mf_record_want(g,
                   mf_cols(g, h) == mf_cols(g, x) && mf_rows(g, x) % mf_rows(g, h) == 0 &&
                       (mf_is_shared(g, h) || !mf_is_shared(g, x)),
                   "gate", 3, all);
    struct mf_val y = mf_record(g, MF_OP_GATE, 3, all, 7, mf_rows(g, x), mf_cols(g, x), &made);
    made->how.from = from;
    return y;
}

static bool holds(const struct mf_graph *g, struct mf_val x, int from, int cols, int blocks)
{
    return from >= 0 && from + cols <= mf_cols(g, x) && mf_rows(g, x) % blocks == 0;
}

struct mf_val mf_attention(struct mf_graph *g, struct mf_val q, struct mf_val k, struct mf_val v,
                           const struct mf_attend *how)
{
    struct mf_node *made;
    struct mf_val all[] = {q, k, v, how->key};
    bool fits = how->heads > 0 && how->blocks > 0 && how->dim % how->heads == 0 && how->out % how->heads == 0 &&
                holds(g, q, how->at[0], how->dim, how->blocks) && holds(g, k, how->at[1], how->dim, how->blocks) &&
                holds(g, v, how->at[2], how->out, how->blocks) && mf_rows(g, k) == mf_rows(g, v);
    mf_record_want(g, fits && mf_is_shared(g, k) == mf_is_shared(g, v) && (!mf_is_shared(g, k) || mf_is_shared(g, q)),
                   "attention", 4, all);
    struct mf_val y = mf_record(g, MF_OP_ATTENTION, 4, all, 7, mf_rows(g, q), how->out, &made);
    made->how.heads = how->heads;
    made->how.blocks = how->blocks;
    made->how.dim = how->dim;
    made->how.scale = how->scale;
    made->how.drop = how->key.id ? how->drop : 0.0f;
    made->how.layer = how->layer;
    for (int i = 0; i < 3; i++)
        made->how.at[i] = how->at[i];
    made->how.keep = mf_attention_keeps(mf_rows(g, q), mf_rows(g, k), how->heads, how->blocks);
    return y;
}
