#include "stream/frame_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/plain.h"
#include "base/text.h"
#include "stream/frame_priv.h"

/* Quoted. What is no UTF-8 becomes U+FFFD; control characters are escaped, those of terminals too. */
static void put_text(const void *text, size_t n, FILE *to)
{
    const uint8_t *p = text;
    putc('"', to);
    for (size_t len; n; p += len, n -= len) {
        len = mf_utf8(p, n);
        if (!len)
            fputs("\\ufffd", to), len = 1;
        else if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (mf_control((const char *)p, n))
            fprintf(to, "\\u%04x", p[len - 1]);
        else
            fwrite(p, 1, len, to);
    }
    putc('"', to);
}

static void put_number(double v, bool single, FILE *to)
{
    char text[MF_NUMBER];
    fputs(!isfinite(v) ? "null" : single ? mf_number_float(text, (float)v) : mf_number_double(text, v), to);
}

#define AT(type) ((const type *)a->data)[i]
static double element(const struct mf_array *a, size_t i)
{
    switch (a->dtype) {
    case MF_F32:
        return (double)AT(float);
    case MF_F64:
        return AT(double);
    case MF_F16:
        return (double)mf_half(AT(uint16_t));
    case MF_BFLOAT:
        return (double)mf_bfloat(AT(uint16_t));
    case MF_U8:
    case MF_B1:
        return AT(uint8_t);
    case MF_I8:
        return AT(int8_t);
    case MF_I16:
        return AT(int16_t);
    case MF_U16:
        return AT(uint16_t);
    case MF_I32:
        return AT(int32_t);
    case MF_U32:
        return AT(uint32_t);
    case MF_I64:
        return (double)AT(int64_t);
    default:
        return (double)AT(uint64_t);
    }
}

static void put_element(const struct mf_array *a, size_t i, FILE *to)
{
    if (a->dtype == MF_I64)
        fprintf(to, "%" PRId64, AT(int64_t));
    else if (a->dtype == MF_U64)
        fprintf(to, "%" PRIu64, AT(uint64_t));
    else if (a->dtype == MF_B1)
        fputs(AT(uint8_t) ? "true" : "false", to);
    else
        put_number(element(a, i), a->dtype == MF_F32, to);
}
#undef AT

/* Rows (t, n) of a rollout that are not transitions, or are not learned from: they may hold anything. */
struct mask {
    const struct mf_array *valid, *loss_mask;
};

static struct mask mask_of(const struct mf_frame *f)
{
    const struct mf_array *of[2] = {mf_frame_find(f, "valid"), mf_frame_find(f, "loss_mask")};
    for (int i = 0; i < 2; i++)
        if (of[i] && (of[i]->rank != 2 || mf_dtype_size(of[i]->dtype) != 1))
            of[i] = NULL;
    return (struct mask){of[0], of[1]};
}

static bool masks(const struct mf_array *mask, const struct mf_array *a, size_t i)
{
    if (!mask || a == mask || a->rank < 2 || a->dim[0] != mask->dim[0] || a->dim[1] != mask->dim[1])
        return false;
    return !((const uint8_t *)mask->data)[i / (a->count / mask->count)];
}

/* Of unmasked numbers, and of the masks themselves. */
static void put_summary(const struct mf_array *a, const struct mask *m, FILE *to)
{
    const bool is_mask = a == m->valid || a == m->loss_mask;
    double low = INFINITY, high = -INFINITY, sum = 0;
    size_t n = 0, masked = 0;
    for (size_t i = 0; i < a->count; i++) {
        if (!is_mask && (masks(m->valid, a, i) || masks(m->loss_mask, a, i))) {
            masked++;
            continue;
        }
        double x = element(a, i);
        if (isnan(x))
            continue;
        low = x < low ? x : low;
        high = x > high ? x : high;
        sum += x;
        n++;
    }
    fputs(",\"min\":", to);
    put_number(low, a->dtype == MF_F32, to);
    fputs(",\"max\":", to);
    put_number(high, a->dtype == MF_F32, to);
    fputs(",\"mean\":", to);
    put_number(n ? sum / (double)n : (double)NAN, false, to);
    fprintf(to, ",\"nan\":%zu", a->count - n - masked);
    if (masked)
        fprintf(to, ",\"masked\":%zu", masked);
}

/* The elements from *i on, as lists nested from dimension d. */
static void put_nested(const struct mf_array *a, int d, size_t *i, FILE *to)
{
    if (d == a->rank) {
        put_element(a, (*i)++, to);
        return;
    }
    putc('[', to);
    for (size_t k = 0; k < a->dim[d]; k++) {
        if (k)
            putc(',', to);
        put_nested(a, d + 1, i, to);
    }
    putc(']', to);
}

static void put_array(const struct mf_array *a, const struct mask *m, enum mf_arrays_as how, FILE *to)
{
    size_t i = 0;
    fprintf(to, "{\"dtype\":\"%s\",\"shape\":[", mf_dtype_name(a->dtype));
    for (int d = 0; d < a->rank; d++)
        fprintf(to, "%s%zu", d ? "," : "", a->dim[d]);
    putc(']', to);
    if (how == MF_ARRAYS_SUMMARY)
        put_summary(a, m, to);
    if (how == MF_ARRAYS_WHOLE) {
        fputs(",\"data\":", to);
        put_nested(a, 0, &i, to);
    }
    putc('}', to);
}

/* A key of a JSON object must be a string; msgpack-numpy's are bytes. */
static size_t put_key(const uint8_t *p, size_t n, FILE *to)
{
    struct mf_token t;
    size_t span = mf_token_span(p, n);
    bool text = mf_token_read(&t, p, n) == 1 && (t.type == MF_TEXT || t.type == MF_BYTES);
    put_text(text ? p + t.head : p, text ? t.n : span, to);
    putc(':', to);
    return span;
}

/* One MessagePack object, which the port has checked to be whole and not deep. Returns its length. */
static size_t put_object(const uint8_t *p, size_t n, FILE *to)
{
    struct mf_token t;
    if (mf_token_read(&t, p, n) != 1)
        return n;
    size_t at = t.head;
    switch (t.type) {
    case MF_TRUTH:
        fputs(t.truth ? "true" : "false", to);
        return at;
    case MF_UINT:
        fprintf(to, "%" PRIu64, t.u);
        return at;
    case MF_SINT:
        fprintf(to, "%" PRId64, t.i);
        return at;
    case MF_REAL:
        put_number(t.f, t.head == 1 + sizeof(float), to);
        return at;
    case MF_TEXT:
        put_text(p + at, t.n, to);
        return at + t.n;
    case MF_BYTES:
    case MF_EXT:
        fprintf(to, "{\"bytes\":%" PRIu64 "}", t.n);
        return mf_token_span(p, n);
    case MF_LIST:
    case MF_MAP:
        putc(t.type == MF_MAP ? '{' : '[', to);
        for (uint64_t i = 0; i < t.n; i++) {
            if (i)
                putc(',', to);
            if (t.type == MF_MAP)
                at += put_key(p + at, n - at, to);
            at += put_object(p + at, n - at, to);
        }
        putc(t.type == MF_MAP ? '}' : ']', to);
        return at;
    default:
        fputs("null", to);
        return at;
    }
}

static void put_field(const struct mf_field *field, FILE *to)
{
    put_key(field->key.p, field->key.n, to);
    put_object(field->value.p, field->value.n, to);
}

static void put_entries(const struct mf_frame *f, enum mf_arrays_as how, FILE *to)
{
    const struct mask mask = mask_of(f);
    putc('{', to);
    for (int i = 0, array = 0; i < f->n_entries; i++) {
        const struct mf_entry *e = &f->entry[i];
        if (i)
            putc(',', to);
        if (!e->array) {
            put_field(&e->field, to);
            continue;
        }
        put_key(e->field.key.p, e->field.key.n, to);
        put_array(mf_frame_array(f, array++), &mask, how, to);
    }
    putc('}', to);
}

void mf_frame_json(const struct mf_frame *f, enum mf_arrays_as how, FILE *to)
{
    putc('{', to);
    for (int i = 0; i < f->n_fields; i++) {
        if (i)
            putc(',', to);
        if (i != f->holder) {
            put_field(&f->field[i], to);
            continue;
        }
        put_key(f->field[i].key.p, f->field[i].key.n, to);
        put_entries(f, how, to);
    }
    fputs("}\n", to);
}
