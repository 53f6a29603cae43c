/* op_attention.c - attention, query by query. */
#include <math.h>
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

/* One head of one block of one sample; columns are those of the packed operands. */
struct ref_head {
    const float *q, *k, *v; /* (n, ldq), (m, ldk), (m, ldv) */
    const float *o, *dout;  /* (n, ldo) */
    float *dq, *dk, *dv;    /* or NULL */
    float *y, *keep;        /* keep: (m + 1, padded n) */
    int n, m, dim, out, ld[3], ldo, padded, block, head, sample;
};

static struct ref_head head_of(const struct mf_call *c, int n, int i)
{
    const struct mf_attend *how = c->how;
    int parts = how->blocks * how->heads, s = i / parts, block = i % parts / how->heads, h = i % how->heads;
    struct ref_head t = {.n = c->y.rows / how->blocks,
                         .m = c->x[1].rows / how->blocks,
                         .dim = how->dim / how->heads,
                         .out = c->y.cols / how->heads,
                         .ldo = c->y.cols,
                         .block = block,
                         .head = h,
                         .sample = s};
    size_t at[3];
    for (int k = 0; k < 3; k++) {
        const struct mf_tensor *x = &c->x[k];
        int row = (x->shared ? 0 : s * x->rows) + block * (x->rows / how->blocks), width = k < 2 ? t.dim : t.out;
        t.ld[k] = mf_row_stride(x);
        at[k] = mf_offset(x, n, row, how->at[k] + h * width);
    }
    size_t to = (size_t)(s * c->y.rows + block * t.n) * (size_t)t.ldo + (size_t)(h * t.out);
    t.padded = (t.n + MF_QUERIES - 1) / MF_QUERIES * MF_QUERIES;
    t.q = c->x[0].data + at[0];
    t.k = c->x[1].data + at[1];
    t.v = c->x[2].data + at[2];
    t.dq = c->x[0].grad ? c->x[0].grad + at[0] : NULL;
    t.dk = c->x[1].grad ? c->x[1].grad + at[1] : NULL;
    t.dv = c->x[2].grad ? c->x[2].grad + at[2] : NULL;
    t.y = c->y.data + to;
    t.o = t.y;
    t.dout = c->y.grad ? c->y.grad + to : NULL;
    t.keep = (c->aux ? c->aux : c->work) + (c->aux ? (size_t)i * (size_t)(t.m + 1) * (size_t)t.padded : 0);
    return t;
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

void mf_attention_drop(const struct mf_call *c, int sample, int part, int query, int n, float *weight, int stride)
{
    const struct mf_attend *how = c->how;
    uint32_t key;
    if (how->drop <= 0.0f)
        return;
    memcpy(&key, c->x[3].data + sample, sizeof key);
    struct mf_rng rng = mf_attention_draws(how, key, part, query);
    for (int j = 0; j < n; j++)
        if (mf_rng_uniform(&rng) < how->drop)
            weight[j * stride] = -weight[j * stride];
}

static void attend(const struct mf_call *c, const struct ref_head *t, int i)
{
    const struct mf_attend *how = c->how;
    double most = -INFINITY, sum = 0.0, kept = 1.0 - (double)how->drop;
    float *weight = t->keep + i, *y = t->y + i * t->ldo;
    for (int j = 0; j < t->m; j++) {
        double s = (double)how->scale * dot(t->q + i * t->ld[0], t->k + j * t->ld[1], t->dim);
        weight[j * t->padded] = (float)s;
        most = s > most || s != s ? s : most;
    }
    for (int j = 0; j < t->m; j++) {
        double e = exp((double)weight[j * t->padded] - most);
        weight[j * t->padded] = (float)e;
        sum += e;
    }
    weight[t->m * t->padded] = (float)(1.0 / sum);
    mf_attention_drop(c, t->sample, t->block * how->heads + t->head, i, t->m, weight, t->padded);
    for (int d = 0; d < t->out; d++) {
        double o = 0.0;
        for (int j = 0; j < t->m; j++)
            o += weight[j * t->padded] < 0.0f ? 0.0 : (double)weight[j * t->padded] * (double)t->v[j * t->ld[2] + d];
        y[d] = (float)(o / sum / kept);
    }
}

static void forward(const struct mf_call *c, int n)
{
    const struct mf_attend *how = c->how;
    int heads = (c->y.shared ? 1 : n) * how->blocks * how->heads;
    for (int i = 0; i < heads; i++) {
        struct ref_head t = head_of(c, n, i);
        for (int q = 0; q < t.n; q++)
            attend(c, &t, q);
    }
}

static void attend_back(const struct mf_call *c, const struct ref_head *t, int i)
{
    const struct mf_attend *how = c->how;
    const float *weight = t->keep + i, *q = t->q + i * t->ld[0], *g = t->dout + i * t->ldo;
    double kept = 1.0 - (double)how->drop, delta = dot(g, t->o + i * t->ldo, t->out);
    for (int j = 0; j < t->m; j++) {
        const float *k = t->k + j * t->ld[1], *v = t->v + j * t->ld[2];
        bool dropped = weight[j * t->padded] < 0.0f;
        double p = fabs((double)weight[j * t->padded]) * (double)weight[t->m * t->padded];
        double ds = (double)how->scale * p * ((dropped ? 0.0 : dot(g, v, t->out) / kept) - delta);
        for (int d = 0; t->dq && d < t->dim; d++)
            t->dq[i * t->ld[0] + d] += (float)(ds * (double)k[d]);
        for (int d = 0; t->dk && d < t->dim; d++)
            t->dk[j * t->ld[1] + d] += (float)(ds * (double)q[d]);
        for (int d = 0; t->dv && !dropped && d < t->out; d++)
            t->dv[j * t->ld[2] + d] += (float)(p / kept * (double)g[d]);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const struct mf_attend *how = c->how;
    int heads = (c->y.shared ? 1 : n) * how->blocks * how->heads;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < heads; i++) {
        struct ref_head t = head_of(c, n, i);
        for (int q = 0; q < t.n; q++)
            for (int d = 0; d < t.out; d++)
                if (t.dout[q * t.ldo + d] != 0.0f) { /* nothing is read for a query whose gradient is 0 */
                    attend_back(c, &t, q);
                    break;
                }
    }
}

static size_t work(const struct mf_call *c, int n, bool back)
{
    (void)n;
    return back ? 0 : mf_attention_keeps(c->y.rows, c->x[1].rows, 1, 1);
}

/* q, k or v may be stored head by head where it is all of its operand. */
static int heads(const struct mf_call *c, int k)
{
    const struct mf_attend *how = c->how;
    return k >= 0 && k < 3 && how->at[k] == 0 && (k < 2 ? how->dim : how->out) == c->x[k].cols ? how->heads : 1;
}

static const struct mf_op op = {
    .name = "attention",
    .attributes = sizeof(struct mf_attend),
    .flows = 1 | 2 | 4,
    .forward = forward,
    .backward = backward,
    .work = work,
    .heads = heads,
};

static bool holds(const struct mf_graph *g, struct mf_val x, int from, int cols, int blocks)
{
    return from >= 0 && from + cols <= mf_cols(g, x) && mf_rows(g, x) % blocks == 0;
}

struct mf_val mf_attention(struct mf_graph *g, struct mf_val q, struct mf_val k, struct mf_val v, struct mf_val key,
                           const struct mf_attend *asked)
{
    struct mf_attend how = *asked;
    struct mf_val all[] = {q, k, v, key};
    bool fits = how.heads > 0 && how.blocks > 0 && how.dim % how.heads == 0 && how.out % how.heads == 0 &&
                holds(g, q, how.at[0], how.dim, how.blocks) && holds(g, k, how.at[1], how.dim, how.blocks) &&
                holds(g, v, how.at[2], how.out, how.blocks) && mf_rows(g, k) == mf_rows(g, v);
    mf_record_want(g, fits && mf_is_shared(g, k) == mf_is_shared(g, v) && (!mf_is_shared(g, k) || mf_is_shared(g, q)),
                   &op, 4, all);
    how.drop = key.id ? how.drop : 0.0f;
    struct mf_val y = mf_record(g, &op, &how, 4, all, mf_rows(g, q), how.out);
    mf_record_of(g, y)->aux_floats = mf_attention_keeps(mf_rows(g, q), mf_rows(g, k), how.heads, how.blocks);
    return y;
}
