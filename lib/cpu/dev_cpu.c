/* dev_cpu.c - the fast device: vectorised where the time goes, ref's loops where it does not. */
#include <string.h>

#include "cpu/crew.h"
#include "dev/dev.h"
#include "cpu/kern.h"
#include "dev/ref.h"

enum { LARGE_MACS = 1 << 20 }; /* a product that is worth sharing: some 20 us */

static size_t floats(const struct mf_tensor *t, int n)
{
    return (size_t)mf_tile_rows(t, n) * (size_t)t->cols;
}

/* y.grad becomes the gradient before the activation and goes on to the operands from `first` on and into db, row by
 * row, while the row is near. Names in live the rows that have any, and returns how many; db, live: or NULL.
 */
static int pass_back(const struct mf_call *c, int n, int first, float *db, int *live)
{
    const struct mf_kern *k = mf_kern();
    size_t N = (size_t)c->y.cols;
    int M = 0;
    for (int r = first; r < c->n_x; r++)
        if (c->x[r].grad && !c->x[r].add && !mf_same_rows(&c->x[r], &c->y))
            memset(c->x[r].grad, 0, sizeof(float) * floats(&c->x[r], n));
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        size_t at = (size_t)i * N;
        float *g = c->y.grad + at;
        bool any = k->act_back(c->act, N, g, c->y.data + at, c->aux ? c->aux + at : NULL);
        for (int r = c->n_x - 1; r >= first; r--) {
            const struct mf_tensor *x = &c->x[r];
            if (x->grad && !x->add && mf_same_rows(x, &c->y))
                memcpy(x->grad + at, g, sizeof(float) * N);
            else if (x->grad && any)
                k->add(N, x->grad + (size_t)mf_row_of(x, &c->y, i) * N, g);
        }
        if (any && db)
            k->add(N, db, g);
        if (any && live)
            live[M++] = i;
    }
    return M;
}

static void cpu_sum(const struct mf_call *c, int n)
{
    const struct mf_kern *k = mf_kern();
    size_t N = (size_t)c->y.cols;
    int from, to;
    mf_part_of(c->part, c->parts, mf_tile_rows(&c->y, n), &from, &to);
    for (int i = from; i < to; i++) {
        float *y = c->y.data + (size_t)i * N;
        memcpy(y, c->x[0].data + (size_t)mf_row_of(&c->x[0], &c->y, i) * N, sizeof(float) * N);
        for (int r = 1; r < c->n_x; r++)
            k->add(N, y, c->x[r].data + (size_t)mf_row_of(&c->x[r], &c->y, i) * N);
        if (c->act != MF_ACT_NONE)
            k->act(c->act, N, y, y, c->aux ? c->aux + (size_t)i * N : NULL);
    }
}

static void cpu_sum_back(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    pass_back(c, n, 0, NULL, NULL);
}

static void cpu_linear(const struct mf_call *c, int n)
{
    struct mf_epilogue e = {
        .b = c->b,
        .y = &c->y,
        .r = {c->n_x > 1 ? &c->x[1] : NULL, c->n_x > 2 ? &c->x[2] : NULL},
        .act = c->act,
        .slope = c->aux,
        .part = c->part,
        .parts = c->parts,
    };
    c->products->times(c->pack, mf_tile_rows(&c->y, n), c->x[0].data, c->y.data, &e);
}

static void gather(int M, const int *live, size_t N, const float *from, float *to)
{
    for (int m = 0; m < M; m++)
        memcpy(to + (size_t)m * N, from + (size_t)live[m] * N, sizeof(float) * N);
}

/* Parts of a linear's way back, by whoever is free; d, dx: the gradients of y's and x's live rows, or of all. */
struct product {
    const struct mf_call *c;
    int M;
    const float *d;
    float *dx;
};

static void x_part(void *arg, int part, int parts, int worker)
{
    const struct product *p = arg;
    const struct mf_tensor *x = &p->c->x[0];
    struct mf_epilogue e = {.y = x, .add = x->add, .part = part, .parts = parts};
    (void)worker;
    p->c->products->times(p->c->pack_back, p->M, p->d, p->dx, &e);
}

struct outer {
    const struct mf_products *by;
    struct mf_outer o;
};

static void pack_part(void *arg, int part, int parts, int worker)
{
    const struct outer *u = arg;
    (void)worker;
    u->by->pack_rows(&u->o, part, parts);
}

static void outer_part(void *arg, int part, int parts, int worker)
{
    const struct outer *u = arg;
    (void)worker;
    u->by->outer(&u->o, part, parts);
}

static void share(const struct mf_call *c, int M, mf_part *fn, void *arg)
{
    if ((double)M * c->x[0].cols * c->y.cols < LARGE_MACS)
        fn(arg, 0, 1, c->worker);
    else
        mf_crew_share(c->crew, c->worker, 4, fn, arg);
}

/* x.grad = y.grad W for the live rows; the others get what a zero gradient gives. */
static void back_to_x(const struct mf_call *c, int M, int all, const int *live, float *work)
{
    const struct mf_tensor *x = &c->x[0], *y = &c->y;
    size_t K = (size_t)x->cols, N = (size_t)y->cols;
    if (M == all) {
        share(c, M, x_part, &(struct product){c, M, y->grad, x->grad});
        return;
    }
    float *dy = work, *dx = work + (size_t)M * N;
    gather(M, live, N, y->grad, dy);
    if (x->add)
        gather(M, live, K, x->grad, dx);
    else
        memset(x->grad, 0, sizeof(float) * (size_t)all * K);
    share(c, M, x_part, &(struct product){c, M, dy, dx});
    for (int m = 0; m < M; m++)
        memcpy(x->grad + (size_t)live[m] * K, dx + (size_t)m * K, sizeof(float) * K);
}

/* dW += y.grad^T x over the live rows, or its turned form. */
static void weights_back(const struct mf_call *c, int M, const int *live, float *lane, float *work)
{
    const struct mf_tensor *out = c->turned ? &c->x[0] : &c->y, *in = c->turned ? &c->y : &c->x[0];
    const float *d = c->turned ? out->data : out->grad, *x = c->turned ? in->grad : in->data;
    struct outer u = {c->products, {M, out->cols, in->cols, live, d, x, c->sets, lane + c->dW + c->from, work, c->ldw}};
    share(c, M, pack_part, &u);
    share(c, M, outer_part, &u);
}

/* Rows whose gradient is zero (the clipped branch won, or they are masked) cost nothing from here on. */
static void cpu_linear_back(const struct mf_call *c, int n, float *lane)
{
    int all = mf_tile_rows(&c->y, n), *live = (int *)(void *)c->work;
    int M = pass_back(c, n, 1, c->db >= 0 ? lane + c->db : NULL, live);
    if (c->x[0].grad)
        back_to_x(c, M, all, live, c->work + all);
    if (c->dW >= 0)
        weights_back(c, M, live, lane, c->work + all);
}

static size_t linear_work(const struct mf_call *c, int n, bool back)
{
    size_t M = (size_t)mf_tile_rows(&c->y, n), K = (size_t)c->x[0].cols, N = (size_t)c->y.cols;
    if (!back)
        return 0;
    size_t rows = M * (K + N),
           outer = c->products->outer_floats((int)M, (int)(c->turned ? K : N), (int)(c->turned ? N : K));
    return M + (rows > outer ? rows : outer);
}

/* exp(logvar / 2), in place: tanh, a line, exp. */
static void cpu_noise_std(const struct mf_call *c, int n)
{
    size_t size = floats(&c->y, n);
    float low = c->x[1].data[0], high = c->x[1].data[1], *y = c->y.data;
    mf_kern()->act(MF_ACT_TANH, size, c->x[0].data, y, NULL);
    for (size_t i = 0; i < size; i++)
        y[i] = 0.5f * (low + (high - low) * 0.5f * (y[i] + 1.0f));
    mf_kern()->exp(size, y, y);
}

static void cpu_noise_std_back(const struct mf_call *c, int n, float *lane)
{
    size_t size = floats(&c->y, n);
    float quarter = 0.25f * (c->x[1].data[1] - c->x[1].data[0]), *t = c->work;
    (void)lane;
    mf_ref_zero(c, n);
    mf_kern()->act(MF_ACT_TANH, size, c->x[0].data, t, NULL);
    for (size_t i = 0; i < size; i++) {
        float g = c->y.grad[i];
        c->x[0].grad[i] += g == 0.0f ? 0.0f : g * c->y.data[i] * quarter * (1.0f - t[i] * t[i]);
    }
}

static size_t noise_std_work(const struct mf_call *c, int n, bool back)
{
    return back ? floats(&c->y, n) : 0;
}

/* The kernels' own, where gradients only add. */
#define KERN(op)                                                                                                       \
    static void cpu_##op(const struct mf_call *c, int n)                                                               \
    {                                                                                                                  \
        mf_kern()->op(c, n);                                                                                           \
    }                                                                                                                  \
    static void cpu_##op##_back(const struct mf_call *c, int n, float *lane)                                           \
    {                                                                                                                  \
        mf_ref_zero(c, n);                                                                                             \
        mf_kern()->op##_back(c, n, lane);                                                                              \
    }
KERN(norm)
KERN(modulate)
KERN(gate)
KERN(attention)

static size_t attention_work(const struct mf_call *c, int n, bool back)
{
    return mf_kern()->attention_work(c, n, back);
}

const struct mf_ops mf_ops_cpu = {
    .name = "cpu",
    .op =
        {
            MF_REF_ROWS,
            [MF_OP_LINEAR] = {"linear", cpu_linear, cpu_linear_back, linear_work, true},
            [MF_OP_SUM] = {"sum", cpu_sum, cpu_sum_back, NULL, true},
            [MF_OP_NORM] = {"norm", cpu_norm, cpu_norm_back, NULL, true},
            [MF_OP_MODULATE] = {"modulate", cpu_modulate, cpu_modulate_back, NULL, false},
            [MF_OP_GATE] = {"gate", cpu_gate, cpu_gate_back, NULL, false},
            [MF_OP_ATTENTION] = {"attention", cpu_attention, cpu_attention_back, attention_work, true},
            [MF_OP_NOISE_STD] = {"noise_std", cpu_noise_std, cpu_noise_std_back, noise_std_work, false},
        },
};
