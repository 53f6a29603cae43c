/* fusion_linear.cu - forward, a product and an activation of it that is a call of its own. Backward through products
 * that follow one another, with sums between them. What the next call does to each number of its gradient by itself,
 * the product that gives this gradient does before it stores the number. And a row whose gradient is 0 behind the first
 * of them has none in any: that one finds these rows for all.
 */
#include <vector>

#include "cuda/fusion.h"
#include "cuda/launch.h"
#include "cuda/linear.h"

#include <lt.h>

extern "C" {
#include "dev/act.h"
}

extern const struct mf_kernel mf_kernel_linear, mf_kernel_sum;

/* ---- forward ---- */

static bool apart(const float *a, size_t floats, const float *b, const struct mf_tensor *of_b, int samples)
{
    return !a || !b || a + floats <= b || b + (size_t)mf_tile_rows(of_b, samples) * of_b->cols <= a;
}

static int takes(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int samples)
{
    const struct mf_call *c = &k[0].call, *sum = &k[1].call;
    if (n < 2 || kernel[0] != &mf_kernel_linear || kernel[1] != &mf_kernel_sum || sum->n_x != 1 ||
        sum->x[0].data != c->y.data || !mf_same_rows(&sum->x[0], &c->y) || mf_linear_how_of(c)->act != MF_ACT_NONE)
        return 0;
    size_t floats = (size_t)mf_tile_rows(&c->y, samples) * c->y.cols;
    bool good =
        apart(sum->y.data, floats, c->x[0].data, &c->x[0], samples) &&
        apart(sum->aux, floats, c->x[0].data, &c->x[0], samples); /* which blocks read after others have written */
    return good ? 2 : 0;
}

static cudaError_t forward(const struct mf_kernel *const *, const struct mf_kernel_call *k, int)
{
    return mf_linear_forward(&k[0], &k[1]);
}

/* ---- backward ---- */

struct chain {
    const struct mf_kernel *const *kernel;
    const struct mf_kernel_call *k;
    int samples;
    int last;                       /* the call whose gradient of x is not yet stored; -1: none */
    std::vector<const float *> set; /* gradients to which the calls so far alone have added */
};

static bool all_from(const struct chain *c, const float *grad)
{
    for (const float *p : c->set)
        if (p == grad)
            return true;
    return false;
}

static void writes(struct chain *c, const struct mf_tensor *x)
{
    for (size_t i = 0; i < c->set.size(); i++)
        if (c->set[i] == x->grad && !x->add)
            return;
    if (x->grad && !x->add)
        c->set.push_back(x->grad);
}

/* What the call does to each number of its gradient. false: other things, too. */
static bool onward_of(const struct mf_kernel *kernel, const struct mf_kernel_call *k, struct mf_onward *on)
{
    const struct mf_call *c = &k->call;
    bool sum = kernel == &mf_kernel_sum, good = true;
    *on = {};
    on->act = sum ? *(const enum mf_act *)c->how : mf_linear_how_of(c)->act;
    on->kept = on->act == MF_ACT_NONE  ? NULL
               : sum                   ? (c->aux ? c->aux : c->y.data)
               : mf_act_keeps(on->act) ? c->aux
                                       : c->y.data;
    on->kept_bf16 = k->y_bf16 && on->kept == c->y.data;
    for (int i = c->n_x - 1; i >= (sum ? 0 : 1); i--) {
        bool same = mf_same_rows(&c->x[i], &c->y);
        if (!c->x[i].grad || (!sum && !same))
            continue;
        good = good && same && on->n < MF_ONWARD;
        if (good)
            on->to[on->n++] = {c->x[i].grad, c->x[i].add};
    }
    good = good && (sum || on->n < MF_ONWARD);
    if (good && !sum)
        on->to[on->n++] = {c->y.grad, false};
    return good && on->n;
}

/* The products of `by` may still read its operands when these numbers are there. */
static bool in_nobodys_way(const struct mf_call *by, const struct mf_call *next, const struct mf_onward *on,
                           int samples)
{
    size_t floats = (size_t)mf_tile_rows(&next->y, samples) * next->y.cols;
    bool good = true;
    for (int i = 0; i < on->n; i++) {
        const float *to = on->to[i].grad;
        good = good && apart(to, floats, by->y.grad, &by->y, samples) &&
               apart(to, floats, by->x[0].data, &by->x[0], samples) && apart(to, floats, on->kept, &next->y, samples);
    }
    return good;
}

/* Takes call i, behind c->last; *on: what that has to do for it, n = 0: nothing. */
static bool take(struct chain *c, int i, struct mf_onward *on)
{
    const struct mf_call *next = &c->k[i].call, *by = c->last < 0 ? NULL : &c->k[c->last].call;
    bool sum = c->kernel[i] == &mf_kernel_sum;
    if ((!sum && c->kernel[i] != &mf_kernel_linear) || !mf_same_rows(&next->y, &c->k[0].call.y) ||
        !all_from(c, next->y.grad) || !onward_of(c->kernel[i], &c->k[i], on))
        return false;
    bool follows =
        by && by->x[0].grad == next->y.grad && by->x[0].data == next->y.data && by->x[0].cols == next->y.cols;
    if (!sum && on->n == 1 && on->act == MF_ACT_NONE)
        *on = {}; /* nothing happens to its gradient */
    else if (!follows || !in_nobodys_way(by, next, on, c->samples))
        return false;
    for (int x = next->n_x - 1; x >= 0; x--)
        if (mf_same_rows(&next->x[x], &next->y))
            writes(c, &next->x[x]);
    c->last = sum ? -1 : i;
    return true;
}

static struct chain begin(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int samples)
{
    struct chain c = {kernel, k, samples, 0, {}};
    for (int x = k->call.n_x - 1; x >= 0; x--)
        if (mf_same_rows(&k->call.x[x], &k->call.y))
            writes(&c, &k->call.x[x]);
    return c;
}

static int takes_back(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int samples)
{
    struct mf_onward on;
    int i = 1;
    if (kernel[0] != &mf_kernel_linear || mf_lt_on())
        return 0;
    for (struct chain c = begin(kernel, k, samples); i < n && take(&c, i, &on);)
        i++;
    return i;
}

static cudaError_t backward(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n)
{
    struct chain c = begin(kernel, k, k->n);
    bool live = false;
    for (int i = 0; i < n; i++)
        live = live || (kernel[i] == &mf_kernel_linear && k[i].call.dW >= 0);
    cudaError_t rc = mf_linear_pass(k, live);
    int before = 0; /* the product whose call is complete but for its rest */
    for (int i = 1; i < n; i++) {
        struct mf_onward on;
        take(&c, i, &on);
        if (before >= 0)
            rc = MF_THEN(rc, mf_linear_rest(&k[before], live && before == 0, on.n ? &on : NULL));
        before = c.last;
    }
    return before < 0 ? rc : MF_THEN(rc, mf_linear_rest(&k[before], live && before == 0, NULL));
}

extern const struct mf_fusion mf_fusion_linear = {takes, forward, takes_back, backward};
