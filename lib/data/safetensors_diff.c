#include "data/safetensors_diff.h"

#include <math.h>
#include <string.h>

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

/* 1 where they differ, told. */
static int diff_tensor(const struct mf_array *a, const struct mf_array *b, FILE *to)
{
    if (!same_shape(a, b)) {
        fprintf(to, "%-64s ", a->name);
        shape(a, to, " and ");
        shape(b, to, "\n");
        return 1;
    }
    if (a->bytes == 0 || !memcmp(a->data, b->data, a->bytes))
        return 0;
    if (a->dtype != MF_F32) {
        fprintf(to, "%-64s bytes differ\n", a->name);
        return 1;
    }
    double worst = 0;
    for (size_t i = 0; i < a->count; i++) {
        double d = fabs((double)float_at(a, i) - (double)float_at(b, i));
        worst = isnan(d) || d > worst ? d : worst;
        if (isnan(d))
            break;
    }
    fprintf(to, "%-64s max difference %.9g\n", a->name, worst);
    return 1;
}

int mf_safetensors_diff(const struct mf_safetensors *a, const struct mf_safetensors *b, FILE *to)
{
    int differ = 0;
    for (int i = 0; i < a->n_meta; i++) {
        const char *v = mf_safetensors_meta(b, a->meta[i].key);
        if (v && !strcmp(v, a->meta[i].value))
            continue;
        differ += fprintf(to, "%-24s %s and %s\n", a->meta[i].key, a->meta[i].value, v ? v : "(nothing)") > 0;
    }
    for (int i = 0; i < b->n_meta; i++)
        if (!mf_safetensors_meta(a, b->meta[i].key))
            differ += fprintf(to, "%-24s (nothing) and %s\n", b->meta[i].key, b->meta[i].value) > 0;
    for (int i = 0; i < a->n; i++) {
        const struct mf_array *t = mf_safetensors_find(b, a->tensors[i].name);
        differ +=
            t ? diff_tensor(&a->tensors[i], t, to) : fprintf(to, "%-64s only in the first\n", a->tensors[i].name) > 0;
    }
    for (int i = 0; i < b->n; i++)
        if (!mf_safetensors_find(a, b->tensors[i].name))
            differ += fprintf(to, "%-64s only in the second\n", b->tensors[i].name) > 0;
    return differ;
}
