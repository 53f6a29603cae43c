#include "run/safetensors_diff.h"

#include <math.h>
#include <string.h>

#include "base/plain.h"

static void shape(const struct mf_array *a, FILE *to, const char *after)
{
    for (int i = 0; i < a->rank; i++)
        fprintf(to, i ? ", %zu" : "(%zu", a->dim[i]);
    fprintf(to, "%s)%s", a->rank ? "" : "(", after);
}

static float float_at(const struct mf_array *a, size_t i)
{
    float x;
    memcpy(&x, (const char *)a->data + i * sizeof x, sizeof x);
    return x;
}

static bool same_shape(const struct mf_array *a, const struct mf_array *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* Prints one difference; returns 1. */
static int report(const char *name, const char *what, FILE *to)
{
    mf_plain(name, 64, to);
    fprintf(to, "%s\n", what);
    return 1;
}

static int report_meta(const char *key, const char *a, const char *b, FILE *to)
{
    mf_plain(key, 24, to);
    putc(' ', to);
    mf_plain(a ? a : "(nothing)", 0, to);
    fputs(" and ", to);
    mf_plain(b ? b : "(nothing)", 0, to);
    putc('\n', to);
    return 1;
}

/* 1 where they differ, which is printed. */
static int diff_tensor(const struct mf_array *a, const struct mf_array *b, FILE *to)
{
    if (!same_shape(a, b)) {
        mf_plain(a->name, 64, to);
        putc(' ', to);
        shape(a, to, " and ");
        shape(b, to, "\n");
        return 1;
    }
    if (a->bytes == 0 || !memcmp(a->data, b->data, a->bytes))
        return 0;
    if (a->dtype != MF_F32) {
        return report(a->name, " bytes differ", to);
    }
    double worst = 0;
    for (size_t i = 0; i < a->count; i++) {
        double d = fabs((double)float_at(a, i) - (double)float_at(b, i));
        worst = isnan(d) || d > worst ? d : worst;
        if (isnan(d))
            break;
    }
    mf_plain(a->name, 64, to);
    fprintf(to, " max difference %.9g\n", worst);
    return 1;
}

int mf_safetensors_diff(const struct mf_safetensors *a, const struct mf_safetensors *b, FILE *to)
{
    int differ = 0;
    for (int i = 0; i < a->n_meta; i++) {
        const char *v = mf_safetensors_meta(b, a->meta[i].key);
        if (!v || strcmp(v, a->meta[i].value) != 0)
            differ += report_meta(a->meta[i].key, a->meta[i].value, v, to);
    }
    for (int i = 0; i < b->n_meta; i++)
        if (!mf_safetensors_meta(a, b->meta[i].key))
            differ += report_meta(b->meta[i].key, NULL, b->meta[i].value, to);
    for (int i = 0; i < a->n; i++) {
        const struct mf_array *t = mf_safetensors_find(b, a->tensors[i].name);
        differ += t ? diff_tensor(&a->tensors[i], t, to) : report(a->tensors[i].name, " only in the first", to);
    }
    for (int i = 0; i < b->n; i++)
        if (!mf_safetensors_find(a, b->tensors[i].name))
            differ += report(b->tensors[i].name, " only in the second", to);
    return differ;
}
