/* forward.c - a call, forward: those rows of its result that are read, divided among workers where it takes long. */
#include <string.h>

#include "cpu/program.h"

enum {
    CALL_MACS = 1 << 18, /* of an operation that is worth dividing: some 3 us */
    LARGE = 1 << 16,     /* floats of a result that has several parts a worker, since cores differ in speed */
    LONG = 1 << 24,      /* multiply-adds of another that has: some 300 us */
};
static const double LONGEST = 0x1p32; /* and of one that has more of them: some 80 ms */

/* The call of rows [from, from + rows) of the tile, whose operands are x. */
static struct mf_cpu_call of_rows(const struct mf_cpu_call *c, struct mf_tensor x[MF_BY_ROWS], int n, int from,
                                  int rows)
{
    struct mf_cpu_call some = *c;
    const size_t first = (size_t)from, all = (size_t)mf_tile_rows(&c->call.y, n);
    for (int k = 0; k < c->call.n_x; k++) {
        x[k] = c->call.x[k];
        if (mf_same_rows(&x[k], &c->call.y))
            x[k].data += first * (size_t)x[k].cols, x[k].rows = rows;
    }
    some.call.x = x;
    some.call.y.data += first * (size_t)c->call.y.cols;
    some.call.y.rows = rows;
    if (c->call.aux)
        some.call.aux += first * (c->aux_floats * (size_t)n / all);
    return some;
}

struct share {
    const struct mf_program *p;
    int i, n;
    const struct mf_cpu_call *call;
};

static bool divides(const struct mf_cpu_call *c)
{
    return c->fast && c->fast->divides;
}

static void forward_part(void *arg, int part, int parts, int w)
{
    const struct share *s = arg;
    struct mf_cpu_call mine = *s->call;
    struct mf_tensor x[MF_BY_ROWS];
    int n = s->n, from, to;
    if (divides(&mine))
        mine.part = part, mine.parts = parts;
    else {
        mf_part_of(part, parts, mf_tile_rows(&mine.call.y, n), &from, &to);
        mine = of_rows(s->call, x, n, from, to - from);
        n = 1;
    }
    mine.call.work = s->p->call[w][s->i].call.work;
    mf_cpu_forward(&mine, n);
}

/* An operation without a product takes some 16 multiply-adds' time for each number that it reads or writes. */
static double macs_of(const struct mf_cpu_call *c, int n)
{
    double floats = (double)mf_tile_rows(&c->call.y, n) * c->call.y.cols;
    for (int k = 0; k < c->call.n_x && !c->pack; k++)
        floats += (double)mf_tile_rows(&c->call.x[k], n) * c->call.x[k].cols;
    return floats * (c->pack ? c->pack->K : 16);
}

/* Of a call, for each worker. */
static int parts_of(const struct mf_cpu_call *c, int n, double macs)
{
    const bool large = mf_tile_rows(&c->call.y, n) * c->call.y.cols >= LARGE || macs >= LONG;
    return macs >= LONGEST ? 8 : large ? 4 : 1;
}

static void share(struct mf_program *p, int w, int i, const struct mf_cpu_call *c, int n)
{
    const double macs = macs_of(c, n);
    struct share s = {p, i, n, c};
    if ((divides(c) || c->by_rows) && p->dev->fast && mf_crew_helps(&p->crew) && macs >= CALL_MACS)
        mf_crew_share(&p->crew, w, parts_of(c, n, macs), forward_part, &s);
    else
        mf_cpu_forward(c, n);
}

/* Runs of rows that are read; zeros for the others. */
void mf_cpu_call_forward(struct mf_program *p, int w, int i, int n)
{
    const struct mf_cpu_call *c = &p->call[w][i];
    const int rows = mf_tile_rows(&c->call.y, n);
    const size_t cols = (size_t)c->call.y.cols;
    struct mf_tensor x[MF_BY_ROWS];
    if (!c->only || !c->by_rows || !p->dev->fast) {
        share(p, w, i, c, n);
        return;
    }
    for (int from = 0, end; from < rows; from = end) {
        const bool read = c->only[from] != 0.0f;
        for (end = from + 1; end < rows && (c->only[end] != 0.0f) == read;)
            end++;
        if (read) {
            struct mf_cpu_call some = of_rows(c, x, n, from, end - from);
            share(p, w, i, &some, 1);
        } else
            memset(c->call.y.data + (size_t)from * cols, 0, sizeof(float) * (size_t)(end - from) * cols);
    }
}
