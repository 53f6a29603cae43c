/* attend_plain.cu - attention with masks, groups of heads, or keys of two operands, in its simple form: forward a
 * thread takes a query of a head, and backward a query or a key. All operands are of the samples, or all are shared.
 */
#include "cuda/attention.h"

struct plain_keys { /* an operand of keys and the next one, of values */
    struct mf_tensor k, v;
    int keys, at_k, at_v; /* keys of a block; first columns */
    bool of_all;          /* one block */
};

struct plain {
    struct mf_tensor q, y;
    struct plain_keys set[2];
    struct mf_attend how;
    const float *mask;
    bool mask_shared;
    float *aux;
    int samples, queries, keys, padded, dim, out, group; /* group: heads that share keys */
};

static struct plain plain_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const struct mf_tensor *mask = mf_attention_mask(c);
    struct plain a = {};
    a.how = *(const struct mf_attend *)c->how;
    a.q = c->x[0];
    a.y = c->y;
    for (int o = 0; o < (a.how.own ? 2 : 1); o++)
        a.set[o] = {c->x[1 + 2 * o],     c->x[2 + 2 * o],     mf_attention_keys(c, o),
                    o ? 0 : a.how.at[1], o ? 0 : a.how.at[2], a.how.own && o == 0};
    a.mask = mask ? mask->data : NULL;
    a.mask_shared = mask && mask->shared;
    a.aux = c->aux;
    a.samples = c->y.shared ? 1 : k->n;
    a.queries = c->y.rows / a.how.blocks;
    a.keys = a.set[0].keys + a.set[1].keys;
    a.padded = (a.queries + MF_QUERIES - 1) / MF_QUERIES * MF_QUERIES;
    a.dim = a.how.dim / a.how.heads;
    a.out = a.how.out / a.how.heads;
    a.group = a.how.heads / mf_attention_groups(&a.how);
    return a;
}

struct plain_head {
    int part, sample, block, head; /* part: of all samples */
};

__device__ __forceinline__ struct plain_head plain_head_of(const struct plain &a, int part)
{
    int parts = a.how.blocks * a.how.heads;
    return {part, part / parts, part % parts / a.how.heads, part % a.how.heads};
}

/* Floats from the data of a tensor of so many blocks to a row of a block, and a column. */
__device__ __forceinline__ size_t plain_at(const struct mf_tensor &t, const struct plain_head &h, int block, int rows,
                                           int row, int col)
{
    return ((size_t)h.sample * t.rows + (size_t)block * rows + row) * t.cols + col;
}

__device__ __forceinline__ size_t key_at(const struct plain &a, const struct plain_head &h, int set, int j)
{
    const struct plain_keys &s = a.set[set];
    return plain_at(s.k, h, s.of_all ? 0 : h.block, s.keys, j, s.at_k + h.head / a.group * a.dim);
}

__device__ __forceinline__ size_t value_at(const struct plain &a, const struct plain_head &h, int set, int j)
{
    const struct plain_keys &s = a.set[set];
    return plain_at(s.v, h, s.of_all ? 0 : h.block, s.keys, j, s.at_v + h.head / a.group * a.out);
}

__device__ __forceinline__ size_t query_at(const struct plain &a, const struct plain_head &h, int i)
{
    return plain_at(a.q, h, h.block, a.queries, i, a.how.at[0] + h.head * a.dim);
}

__device__ __forceinline__ size_t result_at(const struct plain &a, const struct plain_head &h, int i)
{
    return plain_at(a.y, h, h.block, a.queries, i, h.head * a.out);
}

__device__ __forceinline__ bool hidden(const struct plain &a, const struct plain_head &h, int set, int j)
{
    if (!a.mask || set)
        return false;
    int rows = a.set[0].k.rows, row = a.set[0].of_all ? j : h.block * a.set[0].keys + j;
    return a.mask[(size_t)(a.mask_shared ? 0 : h.sample) * rows + row] == 0.0f;
}

__device__ __forceinline__ float dot(const float *x, const float *y, int n)
{
    float sum = 0.0f;
    for (int d = 0; d < n; d++)
        sum = fmaf(x[d], y[d], sum);
    return sum;
}

__device__ __forceinline__ float score(const struct plain &a, const struct plain_head &h, int i, int set, int j)
{
    return a.how.scale * dot(a.q.data + query_at(a, h, i), a.set[set].k.data + key_at(a, h, set, j), a.dim);
}

__device__ __forceinline__ float *keeps(const struct plain &a, const struct plain_head &h)
{
    return a.aux + (size_t)h.part * (a.keys + 1) * a.padded;
}

__device__ __forceinline__ void attend(const struct plain &a, const struct plain_head &h, int i)
{
    float most = -INFINITY, sum = 0.0f, *y = a.y.data + result_at(a, h, i);
    for (int set = 0; set < 2; set++)
        for (int j = 0; j < a.set[set].keys; j++) {
            float s = hidden(a, h, set, j) ? -INFINITY : score(a, h, i, set, j);
            most = s > most ? s : most;
        }
    for (int d = 0; d < a.out; d++)
        y[d] = 0.0f;
    for (int set = 0, key = 0; set < 2; set++)
        for (int j = 0; j < a.set[set].keys; j++, key++) {
            bool skip = hidden(a, h, set, j);
            float e = skip ? 0.0f : expf(score(a, h, i, set, j) - most);
            const float *v = a.set[set].v.data + value_at(a, h, set, j);
            sum += e;
            for (int d = 0; !skip && d < a.out; d++)
                y[d] = fmaf(e, v[d], y[d]);
            if (a.aux)
                keeps(a, h)[(size_t)i * a.keys + key] = e;
        }
    sum = sum == 0.0f ? 1.0f : sum;
    for (int d = 0; d < a.out; d++)
        y[d] /= sum;
    if (a.aux)
        keeps(a, h)[(size_t)a.padded * a.keys + i] = 1.0f / sum;
}

cudaError_t mf_attend_plain(const struct mf_kernel_call *k)
{
    struct plain a = plain_of(k);
    return mf_cells(k->stream, a.samples * a.how.blocks * a.how.heads, a.queries,
                    [=] __device__(int part, int i) { attend(a, plain_head_of(a, part), i); });
}

/* The gradient of a score; the weight of key j (of all keys: `key`) to *p. Where no gradient comes, nothing else is
 * read.
 */
__device__ __forceinline__ float score_back(const struct plain &a, const struct plain_head &h, int i, int set, int j,
                                            int key, float *p)
{
    const float *dy = a.y.grad + result_at(a, h, i), *y = a.y.data + result_at(a, h, i);
    bool any = false;
    for (int d = 0; d < a.out; d++)
        any = any || dy[d] != 0.0f;
    *p = 0.0f;
    if (!any || hidden(a, h, set, j))
        return 0.0f;
    *p = keeps(a, h)[(size_t)i * a.keys + key] * keeps(a, h)[(size_t)a.padded * a.keys + i];
    float dp = dot(dy, a.set[set].v.data + value_at(a, h, set, j), a.out);
    return a.how.scale * *p * (dp - dot(dy, y, a.out));
}

__device__ __forceinline__ void to_query(const struct plain &a, const struct plain_head &h, int i)
{
    float *dq = a.q.grad + query_at(a, h, i), p;
    for (int set = 0, key = 0; set < 2; set++)
        for (int j = 0; j < a.set[set].keys; j++, key++) {
            float ds = score_back(a, h, i, set, j, key, &p);
            const float *k = a.set[set].k.data + key_at(a, h, set, j);
            for (int d = 0; ds != 0.0f && d < a.dim; d++)
                dq[d] = fmaf(ds, k[d], dq[d]);
        }
}

/* Key j of a group: over the blocks that read it, the heads of the group, and the queries. */
__device__ __forceinline__ void to_key(const struct plain &a, int sample, int row, int group, int set)
{
    const struct plain_keys &s = a.set[set];
    int first = s.of_all ? 0 : row / s.keys, last = s.of_all ? a.how.blocks : first + 1,
        j = s.of_all ? row : row % s.keys;
    for (int block = first; block < last; block++)
        for (int g = 0; g < a.group; g++)
            for (int i = 0; i < a.queries; i++) {
                int head = group * a.group + g;
                struct plain_head h = {(sample * a.how.blocks + block) * a.how.heads + head, sample, block, head};
                float p, ds = score_back(a, h, i, set, j, (set ? a.set[0].keys : 0) + j, &p);
                const float *q = a.q.data + query_at(a, h, i), *dy = a.y.grad + result_at(a, h, i);
                float *dk = s.k.grad ? s.k.grad + key_at(a, h, set, j) : NULL,
                      *dv = s.v.grad ? s.v.grad + value_at(a, h, set, j) : NULL;
                for (int d = 0; dk && ds != 0.0f && d < a.dim; d++)
                    dk[d] = fmaf(ds, q[d], dk[d]);
                for (int d = 0; dv && p != 0.0f && d < a.out; d++)
                    dv[d] = fmaf(p, dy[d], dv[d]);
            }
}

/* Gradients only add: those that the call sets begin with zeros. */
static cudaError_t zero(const struct mf_kernel_call *k)
{
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < k->call.n_x; i++) {
        const struct mf_tensor *x = &k->call.x[i];
        if (x->grad && !x->add)
            rc = MF_THEN(
                rc, cudaMemsetAsync(x->grad, 0, (size_t)mf_tile_rows(x, k->n) * x->cols * sizeof(float), k->stream));
    }
    return rc;
}

cudaError_t mf_attend_plain_back(const struct mf_kernel_call *k)
{
    struct plain a = plain_of(k);
    cudaError_t rc = zero(k);
    if (a.q.grad)
        rc = MF_THEN(rc, mf_cells(k->stream, a.samples * a.how.blocks * a.how.heads, a.queries,
                                  [=] __device__(int part, int i) { to_query(a, plain_head_of(a, part), i); }));
    for (int set = 0; set < 2; set++) {
        const struct plain_keys &s = a.set[set];
        if (!s.k.grad && !s.v.grad)
            continue;
        int rows = s.k.rows, groups = mf_attention_groups(&a.how);
        rc = MF_THEN(rc, mf_cells(k->stream, a.samples * rows, groups,
                                  [=] __device__(int i, int group) { to_key(a, i / rows, i % rows, group, set); }));
    }
    return rc;
}
