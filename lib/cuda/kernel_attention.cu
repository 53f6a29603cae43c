/* kernel_attention.cu - attention. */
#include "cuda/attention.h"

static bool by_fours(const void *data, int ld, int at, int width)
{
    return mf_by_fours(data, ld) && at % 4 == 0 && width % 4 == 0;
}

static struct mf_attention attention_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct mf_attention a = {};
    a.how = *(const struct mf_attend *)c->how;
    a.y = c->y;
    a.key = mf_attention_key(c) ? mf_attention_key(c)->data : NULL;
    a.aux = c->aux;
    a.n = k->n;
    a.queries = c->y.rows / a.how.blocks;
    a.keys = c->x[1].rows / a.how.blocks;
    a.dim = a.how.dim / a.how.heads;
    a.out = c->y.cols / a.how.heads;
    a.padded = (a.queries + MF_QUERIES - 1) / MF_QUERIES * MF_QUERIES;
    a.whole = mf_by_fours(a.aux, a.keys);
    a.fours = mf_by_fours(c->y.data, c->y.cols) && mf_by_fours(c->y.grad, c->y.cols);
    for (int i = 0; i < 3; i++) {
        a.x[i] = c->x[i];
        a.fours = a.fours && by_fours(c->x[i].data, mf_row_stride(&c->x[i]), a.how.at[i], i < 2 ? a.dim : a.out);
    }
    return a;
}

static bool is_plain(const struct mf_kernel_call *k)
{
    const struct mf_attend *how = (const struct mf_attend *)k->call.how;
    return how->own || how->masked || how->groups;
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    if (is_plain(k))
        return mf_attend_plain(k);
    struct mf_attention a = attention_of(k);
    return mf_attend_forward(&a, k->stream);
}

/* The gradient of a shared operand is summed over samples: in work memory, (samples, rows, columns) as it is stored. */
static bool summed(const struct mf_kernel_call *k, int i)
{
    return k->call.x[i].grad && k->call.x[i].shared && !k->call.y.shared;
}

static int width_of(const struct mf_attend *how, int i)
{
    return i < 2 ? how->dim : how->out;
}

static bool one_tensor(const struct mf_attention &a, int i, int j)
{
    return a.to[i].grad && a.to[i].grad == a.to[j].grad;
}

/* Different columns of one tensor. */
static bool apart(const struct mf_attention &a, int i, int j)
{
    const struct mf_tensor *x = &a.x[i], *y = &a.x[j];
    bool alike = x->rows == y->rows && x->cols == y->cols && x->heads <= 1 && y->heads <= 1;
    return alike &&
           (a.how.at[i] + width_of(&a.how, i) <= a.how.at[j] || a.how.at[j] + width_of(&a.how, j) <= a.how.at[i]);
}

/* Where gradients go. Operand i is the first writer of its tensor: others of that tensor that have columns of their own
 * set them, too, if together they have all columns; else the tensor is zeroed before. */
static cudaError_t begin(const struct mf_kernel_call *k, struct mf_attention *a, int i)
{
    const struct mf_tensor *x = &a->x[i];
    int cols = 0, n = 0;
    bool fits = true;
    for (int j = 0; j < 3; j++)
        if (one_tensor(*a, i, j)) {
            cols += width_of(&a->how, j);
            n++;
            fits = fits && (i == j || apart(*a, i, j));
            for (int l = 0; l < j; l++)
                fits = fits && (!one_tensor(*a, l, j) || apart(*a, l, j));
        }
    a->to[i].rest = n == 1 && cols < x->cols;
    for (int j = 0; j < 3; j++)
        if (one_tensor(*a, i, j))
            a->to[j].add = !(fits && (n == 1 || cols == x->cols));
    size_t floats = (size_t)mf_tile_rows(x, k->n) * (size_t)x->cols;
    return a->to[i].add ? cudaMemsetAsync(x->grad, 0, floats * sizeof(float), k->stream) : cudaSuccess;
}

static cudaError_t find_targets(const struct mf_kernel_call *k, struct mf_attention *a)
{
    cudaError_t rc = cudaSuccess;
    float *work = k->call.work;
    for (int i = 0; i < 3; i++) {
        struct mf_target *t = &a->to[i];
        const struct mf_tensor *x = &a->x[i];
        bool heads = x->heads > 1;
        int width = width_of(&a->how, i);
        t->grad = x->grad;
        t->add = x->add;
        t->ld = mf_row_stride(x);
        if (summed(k, i)) {
            t->grad = work;
            t->add = false;
            t->ld = heads ? t->ld : width;
            t->next = (size_t)x->rows * width;
            work += k->n * t->next;
        }
        a->fours = a->fours && mf_by_fours(t->grad, t->ld);
    }
    for (int i = 2; i >= 0 && rc == cudaSuccess; i--)
        if (a->to[i].grad && !a->to[i].add && !a->to[i].next)
            rc = begin(k, a, i);
    return rc;
}

static cudaError_t sum_samples(const struct mf_kernel_call *k, const struct mf_attention &a, int i)
{
    const float *from = a.to[i].grad;
    struct mf_kernel_call each = *k;
    struct mf_tensor x = a.x[i];
    int heads = x.heads > 1 ? x.heads : 1, cols = width_of(&a.how, i) / heads;
    x.rows *= heads;
    each.call.y.rows = x.rows;
    return mf_fold(&each, &x, x.grad + a.how.at[i], mf_row_stride(&x), cols,
                   [=] __device__(int row, int j) { return from[(size_t)row * cols + j]; });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    if (is_plain(k))
        return mf_attend_plain_back(k);
    struct mf_attention a = attention_of(k);
    cudaError_t rc = find_targets(k, &a);
    bool together = true;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            together = together && (!one_tensor(a, i, j) || apart(a, i, j));
    if (together)
        rc = rc ? rc : mf_attend_backward(&a, k->stream);
    for (int i = 2; i >= 0 && !together; i--) {
        struct mf_attention alone = a;
        for (int j = 0; j < 3; j++)
            if (j != i)
                alone.to[j] = {};
        rc = rc || !a.to[i].grad ? rc : mf_attend_backward(&alone, k->stream);
    }
    for (int i = 2; i >= 0; i--)
        rc = rc || !summed(k, i) ? rc : sum_samples(k, a, i);
    return rc;
}

static size_t work(const struct mf_kernel_call *k, bool backward)
{
    size_t floats = 0;
    for (int i = 0; i < 3 && backward && !is_plain(k); i++)
        if (summed(k, i))
            floats += (size_t)k->n * k->call.x[i].rows * width_of((const struct mf_attend *)k->call.how, i);
    return floats;
}

extern const struct mf_kernel mf_kernel_attention = {"attention", forward, backward, work};
