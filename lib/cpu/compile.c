/* compile.c - turns a listing into calls with addresses, for every worker, and packed weights. */
#include <stdint.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "base/mem.h"
#include "cpu/program.h"

/* ---- weights that are bf16 in a file ---- */

/* Does call i read them there? Its gradient to x needs packed ones. */
static bool keeps(const struct mf_program *p, int i, const struct mf_cpu_call *c)
{
    const struct mf_listed *l = &p->l->call[i];
    return c->fast && c->fast->keeps && c->fast->keeps(&c->call) && !(l->back && l->x[0].grad.space);
}

static int copy_of(struct mf_program *p, const struct mf_listed *l)
{
    for (int i = 0; i < p->n_copies; i++)
        if (p->copies[i].bf16 == l->W_bf16)
            return i;
    p->copies = mf_xrealloc(p->copies, (size_t)p->n_copies + 1, sizeof *p->copies);
    p->copies[p->n_copies] = (struct mf_copy){l->W_bf16, l->W_floats, p->copy_size};
    p->copy_size += mf_whole_lines(l->W_floats);
    return p->n_copies++;
}

/* By call: the number of its copy, or -1. */
static void find_copies(struct mf_program *p, int *copy)
{
    for (int i = 0; i < p->l->n_calls; i++) {
        struct mf_cpu_call c = mf_program_shapes(p, i);
        copy[i] = p->l->call[i].W_bf16 && !keeps(p, i, &c) ? copy_of(p, &p->l->call[i]) : -1;
        free(c.call.x);
    }
}

static int make_copies(struct mf_program *p, struct mf_err *err)
{
    if (!(p->copy_room = mf_big_alloc(p->copy_size, "copies of frozen weights", err)))
        return err->code;
    for (int i = 0; i < p->n_copies; i++)
        mf_floats_of_bf16(p->copies[i].floats, p->copies[i].bf16, p->copy_room + p->copies[i].at);
    return 0;
}

/* ---- packed weights ---- */

static int pack_of(struct mf_program *p, const struct mf_listed *l, struct mf_packing c, int copy)
{
    const bool kept = l->W_bf16 && copy < 0;
    for (int i = 0; i < p->n_packs; i++) {
        const struct mf_weights_use *u = &p->packs[i];
        if (u->W == l->W && u->bf16 == l->W_bf16 && u->copy == copy && u->c.from == c.from && u->c.n == c.n &&
            u->c.transposed == c.transposed)
            return i;
    }
    p->packs = mf_xrealloc(p->packs, (size_t)p->n_packs + 1, sizeof *p->packs);
    struct mf_weights_use *u = &p->packs[p->n_packs];
    int rows = (int)(l->W_floats / (size_t)l->ldw);
    *u = (struct mf_weights_use){
        .W = l->W,
        .bf16 = l->W_bf16,
        .copy = copy,
        .ldw = l->ldw,
        .c = c,
        .at = p->pack_size,
        .pack = {.K = c.transposed ? rows : c.n, .N = c.transposed ? c.n : rows},
    };
    if (kept)
        u->pack.bf16 = (const char *)l->W_bf16 + (size_t)c.from * sizeof(uint16_t), u->pack.ld = (size_t)l->ldw;
    else
        p->pack_size += mf_whole_lines(p->dev->products->pack_floats(u->pack.K, u->pack.N));
    return p->n_packs++;
}

/* By call: the numbers of its packs, forward and backward, or -1. */
static void find_packs(struct mf_program *p, const int *copy, int (*pack)[2])
{
    for (int i = 0; i < p->l->n_calls; i++) {
        const struct mf_listed *l = &p->l->call[i];
        struct mf_cpu_call c = mf_program_shapes(p, i);
        struct mf_packing want[2];
        pack[i][0] = pack[i][1] = -1;
        p->macs += l->op->macs ? l->op->macs(&c.call) : 0.0;
        if (c.fast && c.fast->packs) {
            c.fast->packs(&c.call, want);
            pack[i][0] = pack_of(p, l, want[0], copy[i]);
            if (l->back && l->x[0].grad.space)
                pack[i][1] = pack_of(p, l, want[1], copy[i]);
        }
        free(c.call.x);
    }
}

/* One allocation in huge pages: with small pages a product is some percent slower. */
static int make_packs(struct mf_program *p, struct mf_err *err)
{
    for (int i = 0; i < p->n_packs; i++)
        if (!p->packs[i].pack.bf16 && p->packs[i].pack.K > p->dev->products->most_inputs)
            return mf_err_set(err, MF_EUSAGE, "precision=bf16 multiplies rows of at most %d numbers, not %d; take fp32",
                              p->dev->products->most_inputs, p->packs[i].pack.K);
    if (!(p->pack_room = mf_big_alloc(p->pack_size, "packed weights", err)))
        return err->code;
    for (int i = 0; i < p->n_packs; i++)
        p->packs[i].pack.data = p->pack_room + p->packs[i].at;
    return 0;
}

/* ---- calls ---- */

static float *address(const struct mf_program *p, int w, struct mf_site s)
{
    switch (s.space) {
    case MF_IN_TILE:
        return p->arena[w] + s.at;
    case MF_IN_SHARED:
        return p->shared + s.at;
    case MF_IN_TAIL:
        return p->sum + s.at;
    default:
        return NULL;
    }
}

static struct mf_tensor tensor(const struct mf_program *p, int w, const struct mf_operand *o)
{
    return (struct mf_tensor){.data = address(p, w, o->data),
                              .grad = address(p, w, o->grad),
                              .rows = o->rows,
                              .cols = o->cols,
                              .heads = o->heads,
                              .shared = o->shared,
                              .add = o->add};
}

static struct mf_cpu_call outline(const struct mf_program *p, int i)
{
    const struct mf_listed *l = &p->l->call[i];
    return (struct mf_cpu_call){
        .call = {.how = l->how, .n_x = l->n_x, .ldw = l->ldw, .dW = l->dW, .db = l->db},
        .op = l->op,
        .fast = mf_fast_find(p->dev->fast, l->op->name),
        .products = p->dev->products,
        .W_bf16 = l->W_bf16,
    };
}

static struct mf_tensor shape_of(const struct mf_operand *o)
{
    return (struct mf_tensor){.rows = o->rows, .cols = o->cols, .shared = o->shared};
}

struct mf_cpu_call mf_program_shapes(const struct mf_program *p, int i)
{
    const struct mf_listed *l = &p->l->call[i];
    struct mf_cpu_call c = outline(p, i);
    c.call.y = shape_of(&l->y);
    c.call.x = mf_xcalloc((size_t)l->n_x, sizeof *c.call.x);
    for (int k = 0; k < l->n_x; k++)
        c.call.x[k] = shape_of(&l->x[k]);
    return c;
}

static bool any_heads(const struct mf_call *c)
{
    bool any = c->y.heads > 1;
    for (int k = 0; k < c->n_x; k++)
        any = any || c->x[k].heads > 1;
    return any;
}

static void make_call(struct mf_program *p, int w, int i, struct mf_tensor *operands, int copy, const int pack[2])
{
    const struct mf_listed *l = &p->l->call[i];
    struct mf_cpu_call *of = &p->call[w][i];
    struct mf_call *c = &of->call;
    *of = outline(p, i);
    of->crew = &p->crew;
    of->worker = w;
    of->pack = pack[0] < 0 ? NULL : &p->packs[pack[0]].pack;
    of->pack_back = pack[1] < 0 ? NULL : &p->packs[pack[1]].pack;
    c->y = tensor(p, w, &l->y);
    c->x = operands;
    for (int k = 0; k < l->n_x; k++)
        c->x[k] = tensor(p, w, &l->x[k]);
    c->work = p->arena[w] + p->l->tile;
    c->aux = address(p, w, l->aux);
    of->aux_floats = l->aux_floats;
    of->only = address(p, w, l->only);
    of->by_rows = l->op->by_rows && c->n_x <= MF_BY_ROWS && l->op->by_rows(c) && !any_heads(c);
    of->W_bf16 = copy < 0 ? l->W_bf16 : NULL;
    c->W = copy >= 0 ? p->copy_room + p->copies[copy].at : l->W < 0 ? NULL : p->l->weights + l->W;
    c->b = l->b < 0 ? NULL : p->l->weights + l->b;
}

static void make_calls(struct mf_program *p, int w, const int *copy, int (*pack)[2])
{
    struct mf_tensor *operands = p->operands[w];
    for (int i = 0; i < p->l->n_calls; operands += p->l->call[i++].n_x)
        make_call(p, w, i, operands, copy[i], pack[i]);
}

static void mark_written(struct mf_program *p, ptrdiff_t at, size_t floats)
{
    for (size_t s = (size_t)at / MF_SLICE; s * MF_SLICE < (size_t)at + floats; s++)
        p->written[s] = true;
}

/* The slices of a lane that tiles write: gradients of their parameters, and the tails. */
static void find_written(struct mf_program *p)
{
    const struct mf_listing *l = p->l;
    p->written = mf_xcalloc(p->lane / MF_SLICE + 1, sizeof *p->written);
    for (size_t i = l->trained / MF_SLICE; i <= p->lane / MF_SLICE; i++)
        p->written[i] = true;
    for (int i = 0; i < l->n_calls; i++) {
        const struct mf_listed *c = &l->call[i];
        if (c->first_W)
            mark_written(p, c->dW, c->W_floats);
        if (c->first_b)
            mark_written(p, c->db, c->b_floats);
    }
}

static int allocate(struct mf_program *p, struct mf_err *err)
{
    const struct mf_listing *l = p->l;
    size_t operands = 0;
    for (int i = 0; i < l->n_calls; i++)
        operands += (size_t)l->call[i].n_x;
    if (!(p->shared = mf_big_alloc(l->shared, "shared values", err)))
        return err->code;
    for (int w = 0; w < mf_workers_count(p->dev->workers); w++) {
        p->call[w] = mf_xcalloc((size_t)l->n_calls, sizeof *p->call[w]);
        p->operands[w] = mf_xcalloc(operands, sizeof *p->operands[w]);
        if (!(p->arena[w] = mf_big_alloc(l->tile + p->work, "a worker's arena", err)))
            return err->code;
    }
    if (l->backward && (!(p->lanes = mf_big_alloc((size_t)l->lanes * p->lane, "gradient lanes", err)) ||
                        !(p->sum = mf_big_alloc(p->lane, "gradients", err))))
        return err->code;
    return make_copies(p, err) ? err->code : make_packs(p, err);
}

int mf_cpu_compile(struct mf_program **out, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err)
{
    size_t T = (size_t)mf_workers_count(d->workers);
    struct mf_program *p = mf_xcalloc(1, sizeof *p);
    *p = (struct mf_program){.dev = d,
                             .l = l,
                             .lane = (l->lane + MF_STRIP - 1) / MF_STRIP * MF_STRIP,
                             .packed = UINT64_MAX,
                             .weights_of_shared = UINT64_MAX};
    p->arena = mf_xcalloc(T, sizeof *p->arena);
    p->call = mf_xcalloc(T, sizeof *p->call);
    p->operands = mf_xcalloc(T, sizeof *p->operands);
    p->fetch_of = mf_xcalloc((size_t)l->n_values, sizeof *p->fetch_of);
    int(*pack)[2] = mf_xcalloc((size_t)l->n_calls, sizeof *pack);
    int *copy = mf_xcalloc((size_t)l->n_calls, sizeof *copy);
    find_copies(p, copy);
    find_packs(p, copy, pack);
    find_written(p);
    p->work = mf_program_work(p, l->samples);
    int rc = l->weights ? allocate(p, err) : 0;
    for (size_t w = 0; rc == 0 && l->weights && w < T; w++)
        make_calls(p, (int)w, copy, pack);
    free(copy);
    free(pack);
    if (rc)
        mf_cpu_forget(p);
    else
        *out = p;
    return rc;
}

void mf_cpu_forget(struct mf_program *p)
{
    for (int w = 0; w < mf_workers_count(p->dev->workers); w++) {
        mf_big_free(p->arena[w], p->l->tile + p->work);
        free(p->call[w]);
        free(p->operands[w]);
    }
    mf_big_free(p->pack_room, p->pack_size);
    mf_big_free(p->copy_room, p->copy_size);
    mf_big_free(p->shared, p->l->shared);
    mf_big_free(p->lanes, (size_t)p->l->lanes * p->lane);
    mf_big_free(p->sum, p->lane);
    free(p->packs);
    free(p->copies);
    free(p->arena);
    free(p->call);
    free(p->operands);
    free(p->written);
    free(p->fetch_of);
    free(p->next);
    free(p->veto);
    free(p);
}
