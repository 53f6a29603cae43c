#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/plain.h"
#include "base/text.h"
#include "import/torch_priv.h"

enum { TEXT_MAX = 4000 }; /* bytes of a value that are kept */

/* Text without control characters, fit for a terminal. */
static void plain(FILE *to, const char *s, size_t n)
{
    size_t cut = n < TEXT_MAX ? n : TEXT_MAX, c;
    for (size_t i = 0; i < cut; i += c ? c : 1) {
        c = mf_utf8(s + i, n - i);
        if (c == 0 || mf_control(s + i, n - i))
            putc(s[i] == '\n' || s[i] == '\t' ? ' ' : '?', to);
        else
            fwrite(s + i, 1, c, to);
    }
    if (cut < n)
        fprintf(to, ".. (%zu bytes)", n);
}

bool mf_torch_object(const struct mf_pickle_node *x, const char *text)
{
    return mf_node_is(x, MF_PICKLE_OBJECT, text);
}

const struct mf_pickle_node *mf_torch_arg(const struct mf_pickle_node *args, size_t i)
{
    return args && i < args->n ? args->item[i] : NULL;
}

const struct mf_pickle_node *mf_torch_unwrapped(const struct mf_pickle_node *x)
{
    for (int i = 0; i < 8 && x && x->kind == MF_PICKLE_OBJECT && x->len > 10 && !memcmp(x->text, "omegaconf.", 10);
         i++) {
        const struct mf_pickle_node *value = mf_node_get(x->state, "_val");
        value = value ? value : mf_node_get(x->state, "_content");
        if (!value)
            break;
        x = value;
    }
    return x;
}

bool mf_torch_bytes(const struct mf_pickle_node *x, const char **p, size_t *n, char **own)
{
    const struct mf_pickle_node *text = mf_torch_object(x, "_codecs.encode") ? mf_torch_arg(x->args, 0) : NULL;
    *own = NULL;
    *p = x->text;
    *n = x->len;
    if (!text || text->kind != MF_PICKLE_TEXT)
        return x->kind == MF_PICKLE_BYTES;
    *p = *own = mf_xcalloc(1, text->len + 1);
    *n = 0;
    for (size_t i = 0; i < text->len; i++) {
        unsigned char a = (unsigned char)text->text[i], b = i + 1 < text->len ? (unsigned char)text->text[i + 1] : 0;
        bool two = (a & 0xfc) == 0xc0 && (b & 0xc0) == 0x80;
        (*own)[(*n)++] = (char)(two ? (a & 3) << 6 | (b & 0x3f) : a);
        i += two;
    }
    return true;
}

/* numpy.core.multiarray.scalar(dtype("f8"), bytes) */
static bool numpy_scalar(const struct mf_pickle_node *x, double *v)
{
    const struct mf_pickle_node *type, *data;
    if ((!mf_torch_object(x, "numpy.core.multiarray.scalar") && !mf_torch_object(x, "numpy._core.multiarray.scalar")) ||
        !(type = mf_torch_arg(x->args, 0)) || !(data = mf_torch_arg(x->args, 1)) ||
        !mf_torch_object(type, "numpy.dtype"))
        return false;
    const struct mf_pickle_node *code = mf_torch_arg(type->args, 0);
    const struct mf_pickle_node *text = mf_torch_arg(data->args, 0);
    const char *p;
    char *own;
    size_t n;
    bool good = (!text || text->len <= 16) && mf_torch_bytes(data, &p, &n, &own);
    if (!good)
        return false;
    float f;
    int64_t i;
    if (mf_node_is(code, MF_PICKLE_TEXT, "f8") && n == sizeof *v) {
        memcpy(v, p, n);
    } else if (mf_node_is(code, MF_PICKLE_TEXT, "f4") && n == sizeof f) {
        memcpy(&f, p, n);
        *v = (double)f;
    } else if (mf_node_is(code, MF_PICKLE_TEXT, "i8") && n == sizeof i) {
        memcpy(&i, p, n);
        *v = (double)i;
    } else {
        good = false;
    }
    free(own);
    return good;
}

bool mf_torch_is_scalar(const struct mf_pickle_node *x)
{
    double v;
    x = mf_torch_unwrapped(x);
    return x->kind <= MF_PICKLE_TEXT || numpy_scalar(x, &v);
}

void mf_torch_scalar(FILE *to, const struct mf_pickle_node *x)
{
    double v = x->number;
    char text[MF_NUMBER];
    switch ((x = mf_torch_unwrapped(x))->kind) {
    case MF_PICKLE_NONE:
        fputs("null", to);
        break;
    case MF_PICKLE_BOOL:
        fputs(x->integer ? "true" : "false", to);
        break;
    case MF_PICKLE_INT:
        fprintf(to, "%lld", (long long)x->integer);
        break;
    case MF_PICKLE_TEXT:
        plain(to, x->text, x->len);
        break;
    case MF_PICKLE_BYTES:
        fprintf(to, "<%zu bytes>", x->len);
        break;
    case MF_PICKLE_GLOBAL:
    case MF_PICKLE_OBJECT:
        if (!numpy_scalar(x, &v)) {
            putc('<', to);
            plain(to, x->len ? x->text : "object", x->len ? x->len : 6);
            putc('>', to);
            break;
        }
        /* fall through */
    default:
        fputs(mf_number_double(text, x->kind == MF_PICKLE_FLOAT ? x->number : v), to);
    }
}
