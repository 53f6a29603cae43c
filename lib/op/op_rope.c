/* op_rope.c - rotary position embeddings. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/loops.h"
#include "op/ops.h"

/* The waves of row i of y: their sines; their cosines follow. */
static const float *waves_of(const struct mf_call *c, int i)
{
    const struct mf_tensor *w = &c->x[1];
    int row = (w->shared ? 0 : i / c->y.rows * w->rows) + i % c->y.rows % w->rows;
    return w->data + (size_t)row * (size_t)w->cols;
}

static void forward(const struct mf_call *c, int n)
{
    int N = c->y.cols, half = c->x[1].cols / 2;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *sine = waves_of(c, i), *cosine = sine + half, *x = mf_ref_row(c, 0, i);
        float *y = c->y.data + (size_t)i * (size_t)N;
        for (int h = 0; h < N; h += 2 * half)
            for (int j = 0; j < half; j++) {
                float a = x[h + j], b = x[h + half + j];
                y[h + j] = mf_turned(a, b, cosine[j], sine[j]);
                y[h + half + j] = mf_turned(b, a, cosine[j], -sine[j]);
            }
    }
}

/* The other way around. */
static void backward(const struct mf_call *c, int n, float *lane)
{
    int N = c->y.cols, half = c->x[1].cols / 2;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *sine = waves_of(c, i), *cosine = sine + half, *g = c->y.grad + (size_t)i * (size_t)N;
        float *dx = mf_ref_grad(c, 0, i);
        for (int h = 0; h < N; h += 2 * half)
            for (int j = 0; j < half; j++) {
                float a = g[h + j], b = g[h + half + j];
                if (a == 0.0f && b == 0.0f)
                    continue;
                dx[h + j] += mf_turned(a, b, cosine[j], -sine[j]);
                dx[h + half + j] += mf_turned(b, a, cosine[j], sine[j]);
            }
    }
}

static const struct mf_op op = {
    .name = "rope",
    .flows = 1,
    .forward = forward,
    .backward = backward,
    .by_rows = mf_ref_by_rows,
};

struct mf_val mf_rope(struct mf_graph *g, struct mf_val x, struct mf_val waves, int heads)
{
    struct mf_val all[] = {x, waves};
    bool fits = heads > 0 && mf_cols(g, x) == heads * mf_cols(g, waves) && mf_cols(g, waves) % 2 == 0;
    fits = fits && mf_rows(g, x) % mf_rows(g, waves) == 0 && (!mf_is_shared(g, x) || mf_is_shared(g, waves));
    mf_record_want(g, fits, &op, 2, all);
    return mf_record(g, &op, NULL, 2, all, mf_rows(g, x), mf_cols(g, x));
}
