/* gemm_dnn.c - the route over oneDNN's matmul primitives: bf16, and fp32 on demand.
 *
 * A primitive is made once for a number of rows and kept; a worker executes it alone, with scratch of its own. The
 * weights' layout is the one that oneDNN prefers for WANTED rows, and all other primitives take it as it is. In bf16
 * both factors are rounded and sums are fp32.
 */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dev/kern.h"

enum { WANTED = 64, STEP = 32 }; /* outer products come in so many rows, the last of them zero */

void omp_set_num_threads(int n); /* oneDNN's threads, of the calling thread */

enum kind { TIMES, TIMES_ADD, OUTER }; /* y = x w; y += x w; dw += d^T x */

struct primitive {
    enum kind kind;
    int M, ld; /* ld of dw */
    dnnl_memory_desc_t a, b, y;
    const dnnl_memory_desc_t *scratch;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t run;
    struct primitive *next;
};

struct dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_data_type_t type; /* of the factors */
    dnnl_memory_desc_t layout;
    dnnl_memory_t weights;
    pthread_mutex_t making;
    _Atomic(struct primitive *) made;
};

static void must(dnnl_status_t status)
{
    if (status != dnnl_success) /* shapes were accepted when the pack was made: only memory can be out */
        abort();
}

static dnnl_memory_desc_t matrix(int rows, int cols, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t d;
    must(dnnl_memory_desc_init_by_tag(&d, 2, (dnnl_dims_t){rows, cols}, type, tag));
    return d;
}

static dnnl_memory_desc_t strided(int rows, int cols, dnnl_data_type_t type, int row_stride, int col_stride)
{
    dnnl_memory_desc_t d;
    must(dnnl_memory_desc_init_by_strides(&d, 2, (dnnl_dims_t){rows, cols}, type,
                                          (dnnl_dims_t){row_stride, col_stride}));
    return d;
}

/* w: the weights' layout, where the kind has them. */
static dnnl_status_t describe(const struct mf_pack *p, const struct dnn *d, const dnnl_memory_desc_t *w,
                              struct primitive *of)
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    bool outer = of->kind == OUTER;
    of->a = outer ? strided(p->N, of->M, d->type, 1, p->N) : matrix(of->M, p->K, d->type, dnnl_ab);
    of->b = outer ? matrix(of->M, p->K, d->type, dnnl_ab) : *w;
    of->y = outer ? strided(p->N, p->K, dnnl_f32, of->ld, 1) : matrix(of->M, p->N, dnnl_f32, dnnl_ab);
    must(dnnl_primitive_attr_create(&attr));
    must(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    must(dnnl_post_ops_create(&ops));
    if (of->kind != TIMES)
        must(dnnl_post_ops_append_sum(ops, 1.0f));
    must(dnnl_primitive_attr_set_post_ops(attr, ops));
    must(dnnl_matmul_desc_init(&matmul, &of->a, &of->b, NULL, &of->y));
    dnnl_status_t status = dnnl_primitive_desc_create(&of->desc, &matmul, attr, d->engine, NULL);
    must(dnnl_post_ops_destroy(ops));
    must(dnnl_primitive_attr_destroy(attr));
    return status;
}

static void release(struct mf_pack *p)
{
    struct dnn *d = p->impl;
    if (!d)
        return;
    for (struct primitive *q = atomic_load(&d->made), *next; q; q = next) {
        next = q->next;
        dnnl_primitive_destroy(q->run);
        dnnl_primitive_desc_destroy(q->desc);
        free(q);
    }
    dnnl_memory_destroy(d->weights);
    dnnl_stream_destroy(d->stream);
    dnnl_engine_destroy(d->engine);
    pthread_mutex_destroy(&d->making);
    free(d);
    *p = (struct mf_pack){0};
}

/* All but the memory. */
static int lay_out(struct mf_pack *p, int K, int N, dnnl_data_type_t type, struct mf_err *err)
{
    struct dnn *d = mf_xcalloc(1, sizeof *d);
    struct primitive q = {.M = WANTED};
    *p = (struct mf_pack){.K = K, .N = N, .impl = d};
    d->type = type;
    pthread_mutex_init(&d->making, NULL);
    dnnl_memory_desc_t any = matrix(K, N, type, dnnl_format_tag_any);
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) || dnnl_stream_create(&d->stream, d->engine, 0) ||
        describe(p, d, &any, &q)) {
        release(p);
        return mf_err_set(err, MF_EDEVICE, "oneDNN has no matrix product for (%d, %d); take MF_CPU_GEMM=own", K, N);
    }
    d->layout = *dnnl_primitive_desc_query_md(q.desc, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_destroy(q.desc);
    return 0;
}

static int init_as(struct mf_pack *p, int K, int N, dnnl_data_type_t type, float *room, struct mf_err *err)
{
    int rc = lay_out(p, K, N, type, err);
    struct dnn *d = p->impl;
    if (rc == 0)
        must(dnnl_memory_create(&d->weights, &d->layout, d->engine, room));
    p->data = room;
    return rc;
}

static int init_f32(struct mf_pack *p, int K, int N, float *room, struct mf_err *err)
{
    return init_as(p, K, N, dnnl_f32, room, err);
}

static int init_bf16(struct mf_pack *p, int K, int N, float *room, struct mf_err *err)
{
    return init_as(p, K, N, dnnl_bf16, room, err);
}

static void pack(struct mf_pack *p, const float *W, int ldw, bool turned)
{
    struct dnn *d = p->impl;
    dnnl_memory_desc_t plain = strided(p->K, p->N, dnnl_f32, turned ? ldw : 1, turned ? 1 : ldw);
    dnnl_memory_t from;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t reorder;
    omp_set_num_threads(1);
    must(dnnl_memory_create(&from, &plain, d->engine, (void *)(uintptr_t)W));
    must(dnnl_reorder_primitive_desc_create(&desc, &plain, d->engine, &d->layout, d->engine, NULL));
    must(dnnl_primitive_create(&reorder, desc));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, d->weights}};
    must(dnnl_primitive_execute(reorder, d->stream, 2, args));
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(desc);
    dnnl_memory_destroy(from);
}

static size_t bytes_as(int K, int N, dnnl_data_type_t type)
{
    struct mf_pack p;
    struct mf_err none;
    if (lay_out(&p, K, N, type, &none))
        return 0;
    size_t size = dnnl_memory_desc_get_size(&((const struct dnn *)p.impl)->layout);
    release(&p);
    return size;
}

static size_t bytes_f32(int K, int N)
{
    return bytes_as(K, N, dnnl_f32);
}

static size_t bytes_bf16(int K, int N)
{
    return bytes_as(K, N, dnnl_bf16);
}

static struct primitive *find(struct dnn *d, enum kind kind, int M, int ld)
{
    struct primitive *q = atomic_load(&d->made);
    while (q && (q->kind != kind || q->M != M || q->ld != ld))
        q = q->next;
    return q;
}

static struct primitive *primitive(const struct mf_pack *p, enum kind kind, int M, int ld)
{
    struct dnn *d = p->impl;
    struct primitive *q = find(d, kind, M, ld);
    if (q)
        return q;
    pthread_mutex_lock(&d->making);
    if (!(q = find(d, kind, M, ld))) {
        q = mf_xcalloc(1, sizeof *q);
        *q = (struct primitive){.kind = kind, .M = M, .ld = ld, .next = atomic_load(&d->made)};
        must(describe(p, d, &d->layout, q));
        q->scratch = dnnl_primitive_desc_query_md(q->desc, dnnl_query_scratchpad_md, 0);
        must(dnnl_primitive_create(&q->run, q->desc));
        atomic_store(&d->made, q);
    }
    pthread_mutex_unlock(&d->making);
    return q;
}

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static char *buffer(size_t bytes)
{
    char *p = bytes ? aligned_alloc(64, padded(bytes)) : NULL;
    must(bytes && !p ? dnnl_out_of_memory : dnnl_success);
    return p;
}

/* b NULL: the packed weights. scratch has room for what the primitive asks. */
static void execute(const struct dnn *d, const struct primitive *q, const void *a, const void *b, float *y,
                    void *scratch)
{
    dnnl_memory_t ma, mb = d->weights, my, ms;
    omp_set_num_threads(1);
    must(dnnl_memory_create(&ma, &q->a, d->engine, (void *)(uintptr_t)a));
    if (b)
        must(dnnl_memory_create(&mb, &q->b, d->engine, (void *)(uintptr_t)b));
    must(dnnl_memory_create(&my, &q->y, d->engine, y));
    must(dnnl_memory_create(&ms, q->scratch, d->engine, scratch));
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, my}, {DNNL_ARG_SCRATCHPAD, ms}};
    must(dnnl_primitive_execute(q->run, d->stream, 4, args));
    dnnl_memory_destroy(ma);
    if (b)
        dnnl_memory_destroy(mb);
    dnnl_memory_destroy(my);
    dnnl_memory_destroy(ms);
}

/* To the nearest bf16, ties to even; NaN stays NaN. */
static void round_bf16(size_t n, const float *x, uint16_t *y)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        y[i] = (uint16_t)(x[i] != x[i] ? (u >> 16 | 0x40) : (u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
}

static void times(const struct mf_pack *p, int M, const float *x, float *y, const struct mf_epilogue *e)
{
    struct dnn *d = p->impl;
    if (M == 0)
        return;
    const struct primitive *q = primitive(p, e->add ? TIMES_ADD : TIMES, M, 0);
    size_t n = (size_t)M * (size_t)p->K, rounded = d->type == dnnl_bf16 ? padded(2 * n) : 0;
    char *own = buffer(rounded + dnnl_memory_desc_get_size(q->scratch));
    if (rounded)
        round_bf16(n, x, (uint16_t *)(void *)own);
    execute(d, q, rounded ? (const void *)own : x, NULL, y, own ? own + rounded : NULL);
    free(own);
    mf_kern()->epilogue(M, p->N, y, e);
}

/* The live rows of x, as the primitive reads them. */
static void gather(const struct dnn *d, int M, const int *live, size_t n, const float *x, char *to)
{
    for (int m = 0; m < M; m++) {
        const float *row = x + (size_t)live[m] * n;
        if (d->type == dnnl_bf16)
            round_bf16(n, row, (uint16_t *)(void *)to + (size_t)m * n);
        else
            memcpy((float *)(void *)to + (size_t)m * n, row, sizeof *row * n);
    }
}

static void outer(const struct mf_pack *p, int M, const int *live, const float *dy, const float *x, float *dw, int lddw)
{
    const struct dnn *d = p->impl;
    if (M == 0)
        return;
    int rows = (M + STEP - 1) / STEP * STEP;
    const struct primitive *q = primitive(p, OUTER, rows, lddw);
    size_t each = d->type == dnnl_bf16 ? 2 : 4, K = (size_t)p->K, N = (size_t)p->N;
    size_t size_dy = padded(each * (size_t)rows * N), size_x = padded(each * (size_t)rows * K);
    char *own = buffer(size_dy + size_x + dnnl_memory_desc_get_size(q->scratch));
    memset(own, 0, size_dy + size_x);
    gather(d, M, live, N, dy, own);
    gather(d, M, live, K, x, own + size_dy);
    execute(d, q, own, own + size_dy, dw, own + size_dy + size_x);
    free(own);
}

const struct mf_gemm mf_gemm_dnn = {"dnn", false, STEP, init_f32, release, pack, bytes_f32, times, outer};
const struct mf_gemm mf_gemm_dnn_bf16 = {"dnn bf16", false, STEP, init_bf16, release, pack, bytes_bf16, times, outer};
