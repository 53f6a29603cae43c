/* convolution.c - recording what convolutions add. */
#include "graph/record.h"

static struct mf_val slide(struct mf_graph *g, enum mf_op op, const char *name, struct mf_val x,
                           const struct mf_slide *how, int T, int cols)
{
    struct mf_node *made;
    mf_record_want(g, mf_rows(g, x) % how->blocks == 0 && T > 0 && cols > 0 && how->pad < how->kernel, name, 1, &x);
    struct mf_val y = mf_record(g, op, 1, &x, 1, how->blocks * T, cols, &made);
    made->how.blocks = how->blocks;
    made->how.window = how->kernel;
    made->how.stride = how->stride;
    made->how.pad = how->pad;
    return y;
}

struct mf_val mf_unfold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how)
{
    int room = mf_rows(g, x) / how->blocks + 2 * how->pad - how->kernel;
    return slide(g, MF_OP_UNFOLD, "unfold", x, how, room < 0 ? 0 : room / how->stride + 1, mf_cols(g, x) * how->kernel);
}

struct mf_val mf_fold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how)
{
    int T = (mf_rows(g, x) / how->blocks - 1) * how->stride - 2 * how->pad + how->kernel;
    mf_record_want(g, mf_cols(g, x) % how->kernel == 0, "fold", 1, &x);
    return slide(g, MF_OP_FOLD, "fold", x, how, T, mf_cols(g, x) / how->kernel);
}

struct mf_val mf_linear_turned(struct mf_graph *g, struct mf_val x, int W)
{
    struct mf_node *made;
    const struct mf_param *w = &g->params->p[W];
    mf_record_want(g, mf_cols(g, x) == w->rows, "linear_turned", 1, &x);
    struct mf_val y = mf_record(g, MF_OP_LINEAR, 1, &x, 1, mf_rows(g, x), w->cols, &made);
    made->how.turned = true;
    made->W = W;
    return y;
}

struct mf_val mf_group_norm(struct mf_graph *g, struct mf_val x, int blocks, int groups, int W, int b, float eps)
{
    struct mf_node *made;
    const struct mf_param *p = g->params->p;
    int rows = mf_rows(g, x), cols = mf_cols(g, x);
    mf_record_want(g, rows % blocks == 0 && cols % groups == 0 && p[W].cols == cols && p[b].cols == cols, "group_norm",
                   1, &x);
    struct mf_val y = mf_record(g, MF_OP_NORM, 1, &x, 1, rows, cols, &made);
    made->how.norm = MF_NORM_LAYER;
    made->how.heads = groups;
    made->how.blocks = blocks;
    made->how.eps = eps;
    made->how.keep = (size_t)blocks * (size_t)groups * 2;
    made->W = W;
    made->b = b;
    return y;
}
