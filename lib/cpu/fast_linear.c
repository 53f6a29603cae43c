/* fast_linear.c - products with packed weights, divided between workers where they are large. */
#include <string.h>

#include "cpu/fast.h"
#include "cpu/pass_back.h"
#include "op/how.h"

enum { LARGE_MACS = 1 << 20 }; /* a product that is worth sharing: some 20 us */

static void forward(const struct mf_cpu_call *call, int n)
{
    const struct mf_call *c = &call->call;
    const struct mf_linear_how *how = c->how;
    struct mf_epilogue e = {
        .b = c->b,
        .y = &c->y,
        .r = {c->n_x > 1 ? &c->x[1] : NULL, c->n_x > 2 ? &c->x[2] : NULL},
        .act = how->act,
        .slope = c->aux,
        .work = c->work,
        .part = call->part,
        .parts = call->parts,
    };
    call->products->times(call->pack, mf_tile_rows(&c->y, n), c->x[0].data, c->y.data, &e);
}

static void gather(int M, const int *live, size_t N, const float *from, float *to)
{
    for (int m = 0; m < M; m++)
        memcpy(to + (size_t)m * N, from + (size_t)live[m] * N, sizeof(float) * N);
}

/* A product of backward, divided among workers; d, dx: the gradients of the live rows of y and x, or of all. */
struct product {
    const struct mf_cpu_call *c;
    int M;
    const float *d;
    float *dx;
};

static void x_part(void *arg, int part, int parts, int worker)
{
    const struct product *p = arg;
    const struct mf_tensor *x = &p->c->call.x[0];
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

static void share(const struct mf_cpu_call *c, int M, mf_part *fn, void *arg)
{
    if ((double)M * c->call.x[0].cols * c->call.y.cols < LARGE_MACS)
        fn(arg, 0, 1, c->worker);
    else
        mf_crew_share(c->crew, c->worker, 4, fn, arg);
}

/* x.grad = y.grad W for the live rows; 0 is set, or added, for the others. */
static void back_to_x(const struct mf_cpu_call *c, int M, int all, const int *live, float *work)
{
    const struct mf_tensor *x = &c->call.x[0], *y = &c->call.y;
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

/* dW += y.grad^T x over the live rows, or its transpose. */
static void weights_back(const struct mf_cpu_call *call, int M, const int *live, float *lane, float *work)
{
    const struct mf_call *c = &call->call;
    const struct mf_linear_how *how = c->how;
    const struct mf_tensor *out = how->transposed ? &c->x[0] : &c->y, *in = how->transposed ? &c->y : &c->x[0];
    const float *d = how->transposed ? out->data : out->grad, *x = how->transposed ? in->grad : in->data;
    struct outer u = {call->products,
                      {M, out->cols, in->cols, live, d, x, c->sets, lane + c->dW + how->from, work, c->ldw}};
    share(call, M, pack_part, &u);
    share(call, M, outer_part, &u);
}

/* Rows whose gradient is zero (the clipped branch won, or they are masked) cost nothing from here on. */
static void backward(const struct mf_cpu_call *call, int n, float *lane)
{
    const struct mf_call *c = &call->call;
    const struct mf_linear_how *how = c->how;
    int all = mf_tile_rows(&c->y, n), *live = (int *)(void *)c->work;
    int M = mf_pass_back(c, n, 1, how->act, c->db >= 0 ? lane + c->db : NULL, live);
    if (c->x[0].grad)
        back_to_x(call, M, all, live, c->work + all);
    if (c->dW >= 0)
        weights_back(call, M, live, lane, c->work + all);
}

static size_t work(const struct mf_cpu_call *call, int n, bool back)
{
    const struct mf_call *c = &call->call;
    const struct mf_linear_how *how = c->how;
    size_t M = (size_t)mf_tile_rows(&c->y, n), K = (size_t)c->x[0].cols, N = (size_t)c->y.cols;
    if (!back)
        return call->W_bf16 && call->products->stored_floats ? call->products->stored_floats((int)M) : 0;
    size_t rows = M * (K + N),
           outer = call->products->outer_floats((int)M, (int)(how->transposed ? K : N), (int)(how->transposed ? N : K));
    return M + (rows > outer ? rows : outer);
}

static void packs(const struct mf_call *c, struct mf_packing want[2])
{
    const struct mf_linear_how *how = c->how;
    int n = how->transposed ? c->y.cols : c->x[0].cols;
    want[0] = (struct mf_packing){how->from, n, how->transposed};
    want[1] = (struct mf_packing){how->from, n, !how->transposed};
}

static bool keeps(const struct mf_call *c)
{
    return !((const struct mf_linear_how *)c->how)->transposed;
}

const struct mf_fast mf_fast_linear = {
    .name = "linear",
    .forward = forward,
    .backward = backward,
    .work = work,
    .divides = true,
    .packs = packs,
    .keeps = keeps,
};
