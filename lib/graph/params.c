#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "graph/graph.h"

int mf_param_find(const struct mf_params *ps, const char *name)
{
    for (int i = 0; i < ps->n; i++)
        if (!strcmp(ps->p[i].name, name))
            return i;
    return -1;
}

static bool frozen(const struct mf_params *ps, const struct mf_param *p)
{
    return ps->frozen >> p->group & 1;
}

/* Each begins a cache line; the gaps stay 0. */
static void lay_out(struct mf_params *ps)
{
    ps->size = 0;
    for (int behind = 0; behind < 2; behind++) {
        for (struct mf_param *p = ps->p; p < ps->p + ps->n; p++) {
            if (p->bf16 || frozen(ps, p) != behind)
                continue;
            p->at = ps->size;
            ps->size += mf_whole_lines((size_t)p->rows * (size_t)p->cols);
        }
        ps->trained = behind ? ps->trained : ps->size;
    }
}

void mf_params_freeze(struct mf_params *ps, unsigned groups)
{
    if (ps->value)
        abort();
    ps->frozen = groups;
    lay_out(ps);
}

void mf_param_keep(struct mf_params *ps, int i, const void *bf16)
{
    if (ps->value || !frozen(ps, &ps->p[i]))
        abort();
    ps->p[i].bf16 = bf16;
    lay_out(ps);
}

void mf_params_like(struct mf_params *ps, const struct mf_params *of)
{
    if (ps->value || ps->n != of->n)
        abort();
    ps->frozen = of->frozen;
    for (int i = 0; i < ps->n; i++)
        ps->p[i].bf16 = of->p[i].bf16;
    lay_out(ps);
}

bool mf_param_trained(const struct mf_params *ps, int i)
{
    return i >= 0 && ps->p[i].group != MF_GROUP_BUFFER && !frozen(ps, &ps->p[i]);
}

int mf_param_add(struct mf_params *ps, const char *name, int rows, int cols, int rank, enum mf_group group,
                 enum mf_init init, float a)
{
    int i = mf_param_find(ps, name);
    if (i >= 0 && ps->p[i].rows == rows && ps->p[i].cols == cols)
        return i;
    /* Another shape under one name, or a parameter after the array was made: a bug in the network. */
    if (i >= 0 || ps->value || rows < 1 || cols < 1 || strlen(name) >= sizeof ps->p->name)
        abort();
    ps->p = mf_xrealloc(ps->p, (size_t)ps->n + 1, sizeof *ps->p);
    struct mf_param *p = &ps->p[ps->n];
    *p = (struct mf_param){.rows = rows, .cols = cols, .rank = rank, .group = group, .init = init, .a = a};
    strcpy(p->name, name);
    ps->n++;
    lay_out(ps);
    return ps->n - 1;
}

int mf_param_add_kernel(struct mf_params *ps, const char *name, int rows, int cols, int kernel, enum mf_group group,
                        float a)
{
    int i = mf_param_add(ps, name, rows, cols, 3, group, MF_INIT_UNIFORM, a);
    ps->p[i].kernel = kernel;
    return i;
}

int mf_param_add_conv(struct mf_params *ps, const char *name, int out, int kh, int kw, int in, enum mf_group group,
                      float a)
{
    int i = mf_param_add(ps, name, out, kh * kw * in, 4, group, MF_INIT_UNIFORM, a);
    ps->p[i].window[0] = kh;
    ps->p[i].window[1] = kw;
    return i;
}

size_t mf_params_count(const struct mf_params *ps, enum mf_group group)
{
    size_t n = 0;
    for (int i = 0; i < ps->n; i++)
        n += ps->p[i].group == group ? (size_t)ps->p[i].rows * (size_t)ps->p[i].cols : 0;
    return n;
}

int mf_params_alloc(struct mf_params *ps, struct mf_err *err)
{
    void *p;
    int rc = mf_alloc(&p, sizeof(float) * ps->size, "parameters", err);
    if (rc == 0)
        ps->value = p;
    return rc;
}

/* A stream per parameter name, so that adding a layer leaves the others' values. */
static uint32_t name_hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

/* The place of number i of n on a line from -1 to 1. */
static float place(size_t i, size_t n)
{
    return n > 1 ? (float)(-1 + 2 * (double)i / (double)(n - 1)) : -1;
}

/* The shorter side's vectors, orthonormal by modified Gram-Schmidt, times a. Of a matrix with more rows than columns
 * they are its columns. */
static void orthogonal(struct mf_rng *rng, const struct mf_param *p, float *v)
{
    const size_t rows = (size_t)p->rows, cols = (size_t)p->cols;
    const bool tall = rows > cols;
    const size_t n = tall ? cols : rows, len = tall ? rows : cols, step = tall ? cols : 1, next = tall ? 1 : cols;
    double *q = mf_xcalloc(n * len, sizeof *q);
    mf_rng_normal(rng, v, n * len);
    for (size_t i = 0; i < n; i++) {
        double *x = q + i * len, square = 0;
        for (size_t k = 0; k < len; k++)
            x[k] = (double)v[i * next + k * step];
        for (size_t j = 0; j < i; j++) {
            double dot = 0;
            for (size_t k = 0; k < len; k++)
                dot += x[k] * q[j * len + k];
            for (size_t k = 0; k < len; k++)
                x[k] -= dot * q[j * len + k];
        }
        for (size_t k = 0; k < len; k++)
            square += x[k] * x[k];
        for (size_t k = 0; k < len; k++) {
            x[k] /= sqrt(square);
            v[i * next + k * step] = p->a * (float)x[k];
        }
    }
    free(q);
}

void mf_params_fresh(struct mf_params *ps, uint64_t seed)
{
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        if (p->bf16)
            continue;
        struct mf_rng rng = mf_rng_at(seed, MF_RNG_INIT, 0, name_hash(p->name), 0);
        float *v = ps->value + p->at;
        size_t n = (size_t)p->rows * (size_t)p->cols, row = (size_t)p->a;
        if (p->init == MF_INIT_ORTHO) {
            orthogonal(&rng, p, v);
            continue;
        }
        if (p->init == MF_INIT_NORMAL)
            mf_rng_normal(&rng, v, n);
        for (size_t j = 0; j < n; j++)
            v[j] = p->init == MF_INIT_UNIFORM  ? mf_rng_range(&rng, -p->a, p->a)
                   : p->init == MF_INIT_NORMAL ? p->a * v[j]
                   : p->init == MF_INIT_GRID_X ? place(j % row, row)
                   : p->init == MF_INIT_GRID_Y ? place(j / row, n / row)
                                               : p->a;
    }
    mf_params_touch(ps);
}

void mf_params_touch(struct mf_params *ps)
{
    ps->version++;
}

void mf_params_release(struct mf_params *ps)
{
    free(ps->p);
    free(ps->value);
    *ps = (struct mf_params){0};
}
