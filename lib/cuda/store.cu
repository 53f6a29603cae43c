/* store.cu - with precision bf16, which values are stored as bf16: those that products alone read, each number of which
 * they would round anyway. Half the bytes are written, and read forward and for the gradient of the weight; no bit of
 * another number changes. The derivative of a ReLU is read from them, too: a number above 0 is then below 2^-133 if it
 * rounds to 0.
 */
#include "cuda/program.h"

#include <lt.h>

extern "C" {
#include "op/how.h"
}

extern const struct mf_kernel mf_kernel_linear;

struct stretch {
    const float *from, *to;
};

static stretch stretch_of(const float *at, size_t floats)
{
    return {at, at ? at + floats : at};
}

static stretch place_of(const struct mf_tensor *t, int n)
{
    return stretch_of(t->data, (size_t)mf_tile_rows(t, n) * t->cols);
}

static bool meet(const stretch &a, const stretch &b)
{
    return a.from < b.to && b.from < a.to;
}

/* Rows of 8 numbers each 16 bytes, which the kernels copy at once. */
static bool by_eights(const struct mf_tensor *t)
{
    return t->heads <= 1 && !t->shared && t->cols % 8 == 0 && (uintptr_t)t->data % 16 == 0;
}

enum read_as { NOT, PRODUCT, OTHER };

/* How call i reads what lies at `place`. */
static enum read_as reads(const mf_program *p, const mf_gpu_part *q, int i, const stretch &place, int samples)
{
    const struct mf_call *c = &q->call[i].call;
    const struct mf_site *only = &p->l->call[i].only;
    bool first = false,
         other = only->space == MF_IN_TILE && meet(place, stretch_of(q->tile + only->at, (size_t)c->y.rows * samples));
    for (int j = 0; j < c->n_x; j++)
        if (meet(place, place_of(&c->x[j], samples)))
            (j == 0 ? first : other) = true;
    bool product = p->kernel[i] == &mf_kernel_linear && c->x[0].data == place.from && by_eights(&c->x[0]) &&
                   !((const struct mf_linear_how *)c->how)->transposed;
    return other || (first && !product) ? OTHER : first ? PRODUCT : NOT;
}

static bool overwrites(const mf_program *p, const mf_gpu_part *q, int i, const stretch &place, int samples)
{
    const struct mf_call *c = &q->call[i].call;
    return meet(place, place_of(&c->y, samples)) ||
           meet(place, stretch_of(c->aux, p->l->call[i].aux_floats * (size_t)samples));
}

/* The result of call i, which runs with calls [first, end), is for products alone, which q->from then names. In half
 * its room a number no longer lies where that of an operand does, so it may not be stored over one. */
static bool for_products(const mf_program *p, mf_gpu_part *q, int i, int first, int end, int samples)
{
    const struct mf_kernel *kernel = p->kernel[i];
    const struct mf_call *c = &q->call[i].call;
    stretch place = place_of(&c->y, samples);
    std::vector<int> products;
    if (p->l->call[i].shared || !kernel->stores_bf16 || !kernel->stores_bf16(c) || !by_eights(&c->y))
        return false;
    for (int j = first; j <= i; j++)
        if (reads(p, q, j, place, samples) != NOT)
            return false;
    for (int j = i + 1; j < p->l->n_calls; j++) {
        enum read_as how = reads(p, q, j, place, samples);
        if (how == OTHER || (how == PRODUCT && j < end))
            return false;
        if (how == PRODUCT)
            products.push_back(j);
        if (overwrites(p, q, j, place, samples))
            break;
    }
    for (int j : products)
        q->from[j] = i;
    return !products.empty();
}

void mf_program_store(const mf_program *p, mf_gpu_part *q, int samples)
{
    int n = p->l->n_calls;
    q->bf16.assign(n, false);
    q->from.assign(n, -1);
    if (p->dev->precision != MF_BF16 || !p->dev->fuses || mf_lt_on())
        return;
    for (int i = 0, end; i < n; i = end) {
        end = i + q->run[i].calls;
        for (int j = i; j < end; j++)
            q->bf16[j] = for_products(p, q, j, i, end, samples);
    }
}
