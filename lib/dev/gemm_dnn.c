/* gemm_dnn.c - the route over oneDNN's matmul primitives: processors with AVX-512, and bf16.
 *
 * A primitive is made once for a number of rows and kept; a worker executes it alone, with scratch of its own. The
 * weights' layout is the one that oneDNN prefers for WANTED rows, and all other primitives take it as it is.
 */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dev/kern.h"

enum { WANTED = 64 };

void omp_set_num_threads(int n); /* oneDNN's threads, of the calling thread */

struct primitive {
    int M;
    bool add;
    dnnl_memory_desc_t x, y;
    const dnnl_memory_desc_t *scratch;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t run;
    struct primitive *next;
};

struct dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_data_type_t type; /* of x and the weights */
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

static dnnl_status_t describe(const struct mf_pack *p, const struct dnn *d, const dnnl_memory_desc_t *w, bool add,
                              struct primitive *of)
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    of->x = matrix(of->M, p->K, d->type, dnnl_ab);
    of->y = matrix(of->M, p->N, dnnl_f32, dnnl_ab);
    must(dnnl_primitive_attr_create(&attr));
    must(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    must(dnnl_post_ops_create(&ops));
    if (add)
        must(dnnl_post_ops_append_sum(ops, 1.0f));
    must(dnnl_primitive_attr_set_post_ops(attr, ops));
    must(dnnl_matmul_desc_init(&matmul, &of->x, w, NULL, &of->y));
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

static int init_as(struct mf_pack *p, int K, int N, dnnl_data_type_t type, struct mf_err *err)
{
    struct dnn *d = mf_xcalloc(1, sizeof *d);
    struct primitive q = {.M = WANTED};
    *p = (struct mf_pack){.K = K, .N = N, .impl = d};
    d->type = type;
    pthread_mutex_init(&d->making, NULL);
    dnnl_memory_desc_t any = matrix(K, N, type, dnnl_format_tag_any);
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) || dnnl_stream_create(&d->stream, d->engine, 0) ||
        describe(p, d, &any, false, &q)) {
        release(p);
        return mf_err_set(err, MF_EDEVICE, "oneDNN has no matrix product for (%d, %d); take MF_CPU_GEMM=own", K, N);
    }
    d->layout = *dnnl_primitive_desc_query_md(q.desc, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_destroy(q.desc);
    if (dnnl_memory_create(&d->weights, &d->layout, d->engine, DNNL_MEMORY_ALLOCATE)) {
        release(p);
        return mf_err_set(err, MF_ENOMEM, "cannot allocate packed weights (%d, %d)", K, N);
    }
    return 0;
}

static int init_f32(struct mf_pack *p, int K, int N, struct mf_err *err)
{
    return init_as(p, K, N, dnnl_f32, err);
}

static int init_bf16(struct mf_pack *p, int K, int N, struct mf_err *err)
{
    return init_as(p, K, N, dnnl_bf16, err);
}

static void pack(struct mf_pack *p, const float *W, int ldw, bool turned)
{
    struct dnn *d = p->impl;
    dnnl_memory_desc_t plain;
    dnnl_memory_t from;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t reorder;
    dnnl_dims_t strides = {turned ? ldw : 1, turned ? 1 : ldw};
    omp_set_num_threads(1);
    must(dnnl_memory_desc_init_by_strides(&plain, 2, (dnnl_dims_t){p->K, p->N}, dnnl_f32, strides));
    must(dnnl_memory_create(&from, &plain, d->engine, (void *)(uintptr_t)W));
    must(dnnl_reorder_primitive_desc_create(&desc, &plain, d->engine, &d->layout, d->engine, NULL));
    must(dnnl_primitive_create(&reorder, desc));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, d->weights}};
    must(dnnl_primitive_execute(reorder, d->stream, 2, args));
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(desc);
    dnnl_memory_destroy(from);
}

static size_t bytes(const struct mf_pack *p)
{
    return dnnl_memory_desc_get_size(&((const struct dnn *)p->impl)->layout);
}

static struct primitive *find(struct dnn *d, int M, bool add)
{
    struct primitive *q = atomic_load(&d->made);
    while (q && (q->M != M || q->add != add))
        q = q->next;
    return q;
}

static struct primitive *primitive(const struct mf_pack *p, int M, bool add)
{
    struct dnn *d = p->impl;
    struct primitive *q = find(d, M, add);
    if (q)
        return q;
    pthread_mutex_lock(&d->making);
    if (!(q = find(d, M, add))) {
        q = mf_xcalloc(1, sizeof *q);
        *q = (struct primitive){.M = M, .add = add, .next = atomic_load(&d->made)};
        must(describe(p, d, &d->layout, add, q));
        q->scratch = dnnl_primitive_desc_query_md(q->desc, dnnl_query_scratchpad_md, 0);
        must(dnnl_primitive_create(&q->run, q->desc));
        atomic_store(&d->made, q);
    }
    pthread_mutex_unlock(&d->making);
    return q;
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
    const struct primitive *q = primitive(p, M, e->add);
    size_t K = (size_t)p->K, rounded = d->type == dnnl_bf16 ? ((size_t)M * K * 2 + 63) / 64 * 64 : 0;
    size_t scratch = dnnl_memory_desc_get_size(q->scratch);
    char *own = rounded + scratch ? aligned_alloc(64, (rounded + scratch + 63) / 64 * 64) : NULL;
    dnnl_memory_t mx, my, ms;
    must(rounded + scratch && !own ? dnnl_out_of_memory : dnnl_success);
    if (rounded)
        round_bf16((size_t)M * K, x, (uint16_t *)(void *)own);
    omp_set_num_threads(1);
    must(dnnl_memory_create(&mx, &q->x, d->engine, rounded ? (void *)own : (void *)(uintptr_t)x));
    must(dnnl_memory_create(&my, &q->y, d->engine, y));
    must(dnnl_memory_create(&ms, q->scratch, d->engine, scratch ? own + rounded : NULL));
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, mx}, {DNNL_ARG_WEIGHTS, d->weights}, {DNNL_ARG_DST, my}, {DNNL_ARG_SCRATCHPAD, ms}};
    must(dnnl_primitive_execute(q->run, d->stream, 4, args));
    dnnl_memory_destroy(mx);
    dnnl_memory_destroy(my);
    dnnl_memory_destroy(ms);
    free(own);
    mf_kern()->epilogue(M, p->N, y, e);
}

const struct mf_gemm mf_gemm_dnn = {"dnn", init_f32, release, pack, bytes, times};
const struct mf_gemm mf_gemm_dnn_bf16 = {"dnn bf16", init_bf16, release, pack, bytes, times};
