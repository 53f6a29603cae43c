/* The cpu device's loops over maps, pictures and blocks of rows, for each instruction set: to the bit what the
 * reference loops compute, in parts of any order, and nothing is read or written beyond the arrays.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/layout.h"
#include "base/rng.h"
#include "cpu/kern.h"
#include "graph/record.h"
#include "op/ops.h"
#include "tap.h"

enum { SAMPLES = 3, TRIALS = 150, PAGE = 4096 };

static struct mf_rng rng;

static int draw(int from, int to)
{
    return from + (int)(mf_rng_u32(&rng) % (uint32_t)(to - from + 1));
}

/* Floats that end where a page ends that may not be touched. */
struct room {
    float *x;
    char *pages;
    size_t n, size;
};

static struct room room(size_t n)
{
    struct room r = {.n = n, .size = (n * sizeof(float) + PAGE - 1) / PAGE * PAGE};
    r.pages = mmap(NULL, r.size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r.pages == MAP_FAILED || mprotect(r.pages + r.size, PAGE, PROT_NONE))
        abort();
    r.x = (float *)(void *)(r.pages + r.size) - n;
    return r;
}

static void leave(struct room *r)
{
    munmap(r->pages, r->size + PAGE);
}

/* Few numbers, so that some are equal; some are not finite where they may be. */
static void fill(struct room *r, bool any)
{
    for (size_t i = 0; i < r->n; i++) {
        int k = draw(-9, 9);
        r->x[i] = any && k == 9 ? NAN : any && k == -9 ? -INFINITY : (float)k / 4.0f;
    }
}

static bool equal(const struct room *a, const struct room *b)
{
    return !memcmp(a->x, b->x, a->n * sizeof(float));
}

/* A call with memory of its own. */
struct trial {
    struct mf_call c;
    struct mf_tensor x;
    struct room x_data, x_grad, y_data, y_grad, aux, work, W, b, lane;
};

static struct room copy_of(const struct room *r)
{
    struct room c = room(r->n);
    memcpy(c.x, r->x, r->n * sizeof(float));
    return c;
}

static void take(struct trial *t)
{
    t->x.data = t->x_data.x, t->x.grad = t->x_grad.x;
    t->c.x = &t->x;
    t->c.y.data = t->y_data.x, t->c.y.grad = t->y_grad.x;
    t->c.aux = t->aux.x, t->c.work = t->work.x, t->c.W = t->W.x, t->c.b = t->b.x;
}

static void start(struct trial *t, struct mf_graph *g, const struct mf_node *nd, bool add)
{
    *t = (struct trial){.c = mf_node_shapes(g, g->n_nodes - 1)};
    t->x = t->c.x[0];
    free(t->c.x);
    t->x.add = add;
    size_t in = (size_t)(SAMPLES * t->x.rows * t->x.cols), out = (size_t)(SAMPLES * t->c.y.rows * t->c.y.cols);
    t->x_data = room(in), t->x_grad = room(in), t->y_data = room(out), t->y_grad = room(out);
    t->aux = room(SAMPLES * nd->aux_floats), t->work = room(4096);
    t->W = room(nd->W < 0 ? 0 : (size_t)(g->params->p[nd->W].rows * g->params->p[nd->W].cols));
    t->b = room(nd->b < 0 ? 0 : (size_t)g->params->p[nd->b].cols), t->lane = room(t->W.n);
    fill(&t->x_data, nd->W < 0), fill(&t->x_grad, false), fill(&t->y_grad, false);
    fill(&t->W, false), fill(&t->b, false), fill(&t->lane, false);
    t->c.dW = 0;
    take(t);
}

static void start_again(struct trial *u, const struct trial *t)
{
    *u = *t;
    u->x_data = copy_of(&t->x_data), u->x_grad = copy_of(&t->x_grad), u->y_data = room(t->y_data.n);
    u->y_grad = copy_of(&t->y_grad), u->aux = room(t->aux.n), u->work = room(t->work.n);
    u->W = copy_of(&t->W), u->b = copy_of(&t->b), u->lane = copy_of(&t->lane);
    memset(u->y_data.x, 0xff, u->y_data.n * sizeof(float));
    take(u);
}

static void end(struct trial *t)
{
    struct room *all[] = {&t->x_data, &t->x_grad, &t->y_data, &t->y_grad, &t->aux, &t->work, &t->W, &t->b, &t->lane};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        leave(all[i]);
}

/* By the loops of k; the last part first, so that what it writes beyond its own is seen. */
static void run(const struct mf_kern *k, const char *op, struct trial *t, int parts)
{
    struct mf_cpu_call c = {.call = t->c, .parts = parts};
    const struct mf_tensor *x = &t->x, *y = &t->c.y;
    for (c.part = parts ? parts - 1 : 0; c.part >= 0; c.part--)
        if (!strcmp(op, "im2col"))
            k->im2col(&c, SAMPLES);
        else if (!strcmp(op, "max_pool2d"))
            k->max_pool2d(&c, SAMPLES);
        else if (!strcmp(op, "picture"))
            k->picture(&c, SAMPLES);
    if (!strcmp(op, "im2col"))
        k->im2col_back(&t->c, SAMPLES);
    else if (!strcmp(op, "max_pool2d"))
        k->max_pool2d_back(&t->c, SAMPLES);
    if (!strcmp(op, "transpose")) {
        int blocks = SAMPLES * x->rows / y->cols;
        k->transpose(blocks, y->cols, x->cols, x->data, y->data, false);
        k->transpose(blocks, x->cols, y->cols, y->grad, x->grad, x->add);
    }
    if (!strcmp(op, "blend")) {
        k->blend(&t->c, SAMPLES);
        k->blend_back(&t->c, SAMPLES, t->lane.x);
    }
}

static struct mf_val record(struct mf_graph *g, struct mf_params *ps, const char *op)
{
    int C = draw(0, 2) ? draw(1, 9) : draw(10, 150), maps = draw(1, 2);
    struct mf_patch p = {.H = draw(1, 12), .W = draw(1, 12), .kh = draw(1, 8), .kw = draw(1, 8), .stride = draw(1, 4)};
    p.pad = draw(0, (p.kh < p.kw ? p.kh : p.kw) - 1);
    p.H = p.H + 2 * p.pad < p.kh ? p.kh : p.H, p.W = p.W + 2 * p.pad < p.kw ? p.kw : p.W;
    if (!strcmp(op, "im2col"))
        return mf_im2col(g, mf_input(g, maps * p.H * p.W, C), &p);
    if (!strcmp(op, "max_pool2d"))
        return mf_max_pool2d(g, mf_input(g, maps * p.H * p.W, C), &p);
    if (!strcmp(op, "transpose"))
        return mf_transpose(g, mf_input(g, maps * draw(1, 40), C), maps);
    int W = mf_param_add(ps, "W", strcmp(op, "blend") ? 1 : draw(1, 40), C, 2, MF_GROUP_BUFFER, MF_INIT_CONST, 0.0f);
    if (!strcmp(op, "blend"))
        return mf_blend(g, mf_input(g, maps * ps->p[W].rows, C), W);
    struct mf_obs o = {.dim = {p.H, p.W, C}, .u8 = draw(0, 1)};
    int floats = o.u8 ? (p.H * p.W * C + 3) / 4 : p.H * p.W * C, from = draw(0, 3);
    int crop = draw(0, p.H < p.W ? p.H : p.W), b = mf_param_add(ps, "b", 1, C, 2, MF_GROUP_BUFFER, MF_INIT_CONST, 0.0f);
    return mf_picture(g, mf_input(g, maps, from + floats), from, &o, crop, W, b);
}

/* Bits: sums of products, which the reference does not fuse, are exact by the numbers of fill. */
static int wrong(const struct mf_kern *k, const char *op)
{
    struct mf_params ps = {.n = 0};
    struct mf_graph *g = mf_graph_new(&ps);
    struct mf_node *nd = mf_record_of(g, record(g, &ps, op));
    struct trial want, got;
    start(&want, g, nd, draw(0, 1));
    start_again(&got, &want);
    nd->op->forward(&want.c, SAMPLES);
    if (nd->op->backward)
        nd->op->backward(&want.c, SAMPLES, want.lane.x);
    run(k, op, &got, draw(0, 3));
    bool good = equal(&want.y_data, &got.y_data) && equal(&want.x_grad, &got.x_grad) && equal(&want.aux, &got.aux) &&
                equal(&want.lane, &got.lane);
    end(&want);
    end(&got);
    mf_graph_free(g);
    mf_params_release(&ps);
    return !good;
}

int main(void)
{
    static const char *const all[] = {"im2col", "max_pool2d", "picture", "transpose", "blend"};
    const struct mf_kern *kerns[] = {&mf_kern_base, &mf_kern_avx2, &mf_kern_avx512};
    for (int i = 0; i < 3; i++)
        for (size_t op = 0; op < sizeof all / sizeof *all; op++) {
            if (mf_kern() == &mf_kern_base ? i > 0 : mf_kern() == &mf_kern_avx2 && i > 1) {
                skip(kerns[i]->name, "this processor lacks it");
                continue;
            }
            int bad = 0;
            rng = mf_rng_at(5, MF_RNG_TEST, (uint32_t)op, 0, 0);
            for (int t = 0; t < TRIALS; t++)
                bad += wrong(kerns[i], all[op]);
            ok(bad == 0, "%s: %s as its reference, to the bit", kerns[i]->name, all[op]);
        }
    return done();
}
