/* op_attention.c - attention, query by query. */
#include <math.h>
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

enum { SETS = 2 }; /* of keys: of the block, or of all blocks and of the block behind them */

struct ref_keys {
    const float *k, *v;
    float *dk, *dv; /* or NULL */
    int n, ldk, ldv;
};

/* One head of one block of one sample; columns are those of the packed operands. */
struct ref_head {
    const float *q;        /* (n, ldq) */
    const float *mask;     /* of the first set's keys, or NULL */
    const float *o, *dout; /* (n, ldo) */
    float *dq;             /* or NULL */
    float *y, *keep;       /* keep: (m + 1, padded n) */
    int n, m, dim, out, ldq, ldo, padded, block, head, sample;
    struct ref_keys set[SETS];
};

/* Floats from the data of operand k to row `from` of the sample's, column `col`. */
static size_t ref_at(const struct mf_call *c, int k, int n, int sample, int from, int col)
{
    const struct mf_tensor *x = &c->x[k];
    return mf_offset(x, n, (x->shared ? 0 : sample * x->rows) + from, col);
}

/* The keys of operand `first` and the values of the next one. */
static struct ref_keys keys_of(const struct mf_call *c, int n, int sample, int first, int block, int keys, int group)
{
    const struct mf_attend *how = c->how;
    int own = first > 1;
    struct ref_keys t = {.n = keys};
    if (keys == 0)
        return t;
    int row = own || !how->own ? block * keys : 0;
    const struct mf_tensor *k = &c->x[first], *v = &c->x[first + 1];
    size_t at = ref_at(c, first, n, sample, row, (own ? 0 : how->at[1]) + group * (how->dim / how->heads)),
           to = ref_at(c, first + 1, n, sample, row, (own ? 0 : how->at[2]) + group * (how->out / how->heads));
    t.k = k->data + at, t.ldk = mf_row_stride(k);
    t.v = v->data + to, t.ldv = mf_row_stride(v);
    t.dk = k->grad ? k->grad + at : NULL;
    t.dv = v->grad ? v->grad + to : NULL;
    return t;
}

static struct ref_head head_of(const struct mf_call *c, int n, int i)
{
    const struct mf_attend *how = c->how;
    int parts = how->blocks * how->heads, s = i / parts, block = i % parts / how->heads, h = i % how->heads;
    int group = h / (how->heads / mf_attention_groups(how));
    struct ref_head t = {.n = c->y.rows / how->blocks,
                         .dim = how->dim / how->heads,
                         .out = c->y.cols / how->heads,
                         .ldq = mf_row_stride(&c->x[0]),
                         .ldo = c->y.cols,
                         .block = block,
                         .head = h,
                         .sample = s};
    const struct mf_tensor *mask = mf_attention_mask(c);
    size_t at = ref_at(c, 0, n, s, block * t.n, how->at[0] + h * t.dim);
    size_t to = (size_t)(s * c->y.rows + block * t.n) * (size_t)t.ldo + (size_t)(h * t.out);
    for (int own = 0; own < SETS; own++) {
        t.set[own] = keys_of(c, n, s, 1 + 2 * own, block, mf_attention_keys(c, own), group);
        t.m += t.set[own].n;
    }
    if (mask)
        t.mask = mask->data + mf_ref_sample(mask, s) + (how->own ? 0 : block * t.set[0].n);
    t.padded = (t.n + MF_QUERIES - 1) / MF_QUERIES * MF_QUERIES;
    t.q = c->x[0].data + at;
    t.dq = c->x[0].grad ? c->x[0].grad + at : NULL;
    t.y = c->y.data + to;
    t.o = t.y;
    t.dout = c->y.grad ? c->y.grad + to : NULL;
    t.keep = (c->aux ? c->aux : c->work) + (c->aux ? (size_t)i * (size_t)(t.m + 1) * (size_t)t.padded : 0);
    return t;
}

/* The set of key j, and its number there. */
static const struct ref_keys *set_of(const struct ref_head *t, int j, int *number)
{
    int own = j >= t->set[0].n;
    *number = own ? j - t->set[0].n : j;
    return &t->set[own];
}

static bool hidden(const struct ref_head *t, int j)
{
    return t->mask && j < t->set[0].n && t->mask[j] == 0.0f;
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
    memcpy(&key, mf_attention_key(c)->data + sample, sizeof key);
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
    for (int j = 0, at; j < t->m; j++) {
        const struct ref_keys *of = set_of(t, j, &at);
        double s = hidden(t, j) ? -INFINITY : (double)how->scale * dot(t->q + i * t->ldq, of->k + at * of->ldk, t->dim);
        weight[j * t->padded] = (float)s;
        most = s > most || s != s ? s : most;
    }
    for (int j = 0; j < t->m; j++) {
        double e = hidden(t, j) ? 0.0 : exp((double)weight[j * t->padded] - most);
        weight[j * t->padded] = (float)e;
        sum += e;
    }
    sum = sum == 0.0 ? 1.0 : sum; /* no key at all */
    weight[t->m * t->padded] = (float)(1.0 / sum);
    mf_attention_drop(c, t->sample, t->block * how->heads + t->head, i, t->m, weight, t->padded);
    for (int d = 0; d < t->out; d++) {
        double o = 0.0;
        for (int j = 0, at; j < t->m; j++) {
            const struct ref_keys *of = set_of(t, j, &at);
            double w = (double)weight[j * t->padded];
            o += w < 0.0 || hidden(t, j) ? 0.0 : w * (double)of->v[at * of->ldv + d];
        }
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
    const float *weight = t->keep + i, *q = t->q + i * t->ldq, *g = t->dout + i * t->ldo;
    double kept = 1.0 - (double)how->drop, delta = dot(g, t->o + i * t->ldo, t->out);
    for (int j = 0, at; j < t->m; j++) {
        const struct ref_keys *of = set_of(t, j, &at);
        const float *k = of->k + at * of->ldk, *v = of->v + at * of->ldv;
        if (hidden(t, j))
            continue;
        bool dropped = weight[j * t->padded] < 0.0f;
        double p = fabs((double)weight[j * t->padded]) * (double)weight[t->m * t->padded];
        double ds = (double)how->scale * p * ((dropped ? 0.0 : dot(g, v, t->out) / kept) - delta);
        for (int d = 0; t->dq && d < t->dim; d++)
            t->dq[i * t->ldq + d] += (float)(ds * (double)k[d]);
        for (int d = 0; of->dk && d < t->dim; d++)
            of->dk[at * of->ldk + d] += (float)(ds * (double)q[d]);
        for (int d = 0; of->dv && !dropped && d < t->out; d++)
            of->dv[at * of->ldv + d] += (float)(p / kept * (double)g[d]);
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
    const struct mf_attend *how = c->how;
    (void)n;
    return back ? 0 : mf_attention_keeps(c->y.rows / how->blocks, mf_attention_keys(c, 0) + mf_attention_keys(c, 1));
}

/* q, k or v may be stored head by head where it is all of its operand. */
static int heads(const struct mf_call *c, int k)
{
    const struct mf_attend *how = c->how;
    bool plain = !how->groups && !how->own && k >= 0 && k < 3;
    return plain && how->at[k] == 0 && (k < 2 ? how->dim : how->out) == c->x[k].cols ? how->heads : 1;
}

static const struct mf_op op = {
    .name = "attention",
    .attributes = sizeof(struct mf_attend),
    .flows = 1 | 2 | 4 | 8 | 16, /* masks and keys of dropout are detached */
    .forward = forward,
    .backward = backward,
    .work = work,
    .heads = heads,
};

static bool holds(const struct mf_graph *g, struct mf_val x, int from, int cols, int blocks)
{
    return from >= 0 && from + cols <= mf_cols(g, x) && mf_rows(g, x) % blocks == 0;
}

/* Columns of the keys, or of the values, of all groups. */
static int grouped(const struct mf_attend *how, int cols)
{
    return cols / how->heads * mf_attention_groups(how);
}

static bool fits(const struct mf_graph *g, struct mf_val q, const struct mf_keys *keys, const struct mf_attend *how)
{
    struct mf_val k = keys->k, v = keys->v, own_k = keys->own_k, own_v = keys->own_v;
    int blocks = how->own ? 1 : how->blocks, groups = mf_attention_groups(how);
    bool good = how->heads > 0 && how->blocks > 0 && how->dim % how->heads == 0 && how->out % how->heads == 0;
    good = good && groups > 0 && how->heads % groups == 0 && holds(g, q, how->at[0], how->dim, how->blocks) &&
           holds(g, k, how->at[1], grouped(how, how->dim), blocks) &&
           holds(g, v, how->at[2], grouped(how, how->out), blocks) && mf_rows(g, k) == mf_rows(g, v) &&
           mf_is_shared(g, k) == mf_is_shared(g, v) && (!mf_is_shared(g, k) || mf_is_shared(g, q));
    bool special = how->own || how->masked || how->groups;
    good = good && (!special || mf_is_shared(g, q) == mf_is_shared(g, k));
    if (how->masked)
        good = good && mf_has_shape(g, keys->mask, mf_rows(g, k), 1) &&
               (!mf_is_shared(g, k) || mf_is_shared(g, keys->mask));
    if (how->own)
        good = good && holds(g, own_k, 0, grouped(how, how->dim), how->blocks) &&
               holds(g, own_v, 0, grouped(how, how->out), how->blocks) && mf_rows(g, own_k) == mf_rows(g, own_v) &&
               mf_is_shared(g, own_k) == mf_is_shared(g, q) && mf_is_shared(g, own_v) == mf_is_shared(g, q);
    return good;
}

static struct mf_val record(struct mf_graph *g, struct mf_val q, const struct mf_keys *keys, struct mf_val key,
                            const struct mf_attend *asked)
{
    struct mf_attend how = *asked;
    how.own = keys->own_k.id != 0;
    how.masked = keys->mask.id != 0;
    how.drop = key.id ? how.drop : 0.0f;
    struct mf_val mask = how.masked ? mf_detach(g, keys->mask) : MF_NONE;
    struct mf_val all[] = {q, keys->k, keys->v, keys->own_k, keys->own_v, mask, key.id ? mf_detach(g, key) : key};
    mf_record_want(g, fits(g, q, keys, &how), &op, 7, all);
    struct mf_val y = mf_record(g, &op, &how, 7, all, mf_rows(g, q), how.out);
    mf_record_only(g, y, q);
    int m = how.own ? mf_rows(g, keys->k) + mf_rows(g, keys->own_k) / how.blocks : mf_rows(g, keys->k) / how.blocks;
    mf_record_of(g, y)->aux_floats =
        (size_t)how.blocks * (size_t)how.heads * mf_attention_keeps(mf_rows(g, q) / how.blocks, m);
    return y;
}

struct mf_val mf_attention(struct mf_graph *g, struct mf_val q, struct mf_val k, struct mf_val v, struct mf_val key,
                           const struct mf_attend *how)
{
    return record(g, q, &(struct mf_keys){.k = k, .v = v}, key, how);
}

struct mf_val mf_attention_to(struct mf_graph *g, struct mf_val q, const struct mf_keys *keys,
                              const struct mf_attend *how)
{
    return record(g, q, keys, MF_NONE, how);
}
