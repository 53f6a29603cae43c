#include "run/safetensors_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stream/json.h"

int mf_json_wrong(struct mf_json *j, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mf_err_set(j->err, MF_EFORMAT, "%s is not a valid safetensors file: %s", j->path, text);
}

char mf_json_peek(struct mf_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
        j->at++;
    return j->at < j->end ? *j->at : 0;
}

bool mf_json_take(struct mf_json *j, char c)
{
    bool there = mf_json_peek(j) == c;
    j->at += there;
    return there;
}

int mf_json_expect(struct mf_json *j, char c, const char *where)
{
    return mf_json_take(j, c) ? 0 : mf_json_wrong(j, "'%c' is missing in %s of its header", c, where);
}

static int hex4(struct mf_json *j, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        char c = j->at < j->end ? *j->at : 0;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return mf_json_wrong(j, "a string of its header has a broken \\u escape");
        *code = *code << 4 | (unsigned)digit;
    }
    return 0;
}

static int unicode_escape(struct mf_json *j)
{
    unsigned code, low;
    int rc = hex4(j, &code);
    if (rc)
        return rc;
    if (code >= 0xd800 && code < 0xe000) { /* half of a surrogate pair */
        if (code >= 0xdc00 || j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u')
            return mf_json_wrong(j, "a string of its header has half a surrogate pair");
        j->at += 2;
        if ((rc = hex4(j, &low)))
            return rc;
        if (low < 0xdc00 || low > 0xdfff)
            return mf_json_wrong(j, "a string of its header has half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    if (code == 0)
        return mf_json_wrong(j, "a string of its header holds a NUL");
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *j->string++ = (char)(lead[more] | code >> 6 * more);
    while (more--)
        *j->string++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return 0;
}

static int escape(struct mf_json *j)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->end ? *j->at++ : 0;
    if (c == 'u')
        return unicode_escape(j);
    const char *p = c ? strchr(from, c) : NULL;
    if (!p)
        return mf_json_wrong(j, "a string of its header has a broken escape");
    *j->string++ = to[p - from];
    return 0;
}

/* Decoded and NUL-ended in j's buffer: an escape is never shorter than what it stands for, and the quotes pay the NUL.
 */
int mf_json_string(struct mf_json *j, const char **s, const char *where)
{
    int rc = mf_json_expect(j, '"', where);
    *s = j->string;
    while (!rc) {
        if (j->at == j->end)
            return mf_json_wrong(j, "a string of its header does not end");
        if (*j->at == '"')
            break;
        if (*j->at == '\\') {
            j->at++;
            rc = escape(j);
            continue;
        }
        size_t n = (unsigned char)*j->at < 0x20 ? 0 : mf_utf8(j->at, (size_t)(j->end - j->at));
        if (n == 0)
            return mf_json_wrong(j, "a string of its header holds a byte that is not UTF-8 text");
        memcpy(j->string, j->at, n);
        j->string += n;
        j->at += n;
    }
    if (!rc) {
        j->at++;
        *j->string++ = 0;
    }
    return rc;
}

/* [n, n, ...] of at most max non-negative integers. */
int mf_json_numbers(struct mf_json *j, const char *tensor, const char *field, uint64_t *v, int max, int *n)
{
    int rc = mf_json_expect(j, '[', field);
    *n = 0;
    if (rc || mf_json_take(j, ']'))
        return rc;
    do {
        char c = mf_json_peek(j);
        if (c < '0' || c > '9')
            return mf_json_wrong(j, "%s of tensor %.100s holds what is no non-negative integer", field, tensor);
        if (*n == max)
            return mf_json_wrong(j, "%s of tensor %.100s has more than %d numbers", field, tensor, max);
        uint64_t x = 0;
        const char *first = j->at;
        for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
            if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, (uint64_t)(*j->at - '0'), &x))
                return mf_json_wrong(j, "a number in %s of tensor %.100s does not fit 64 bits", field, tensor);
        if (*first == '0' && j->at - first > 1)
            return mf_json_wrong(j, "a number in %s of tensor %.100s begins with 0", field, tensor);
        v[(*n)++] = x;
    } while (mf_json_take(j, ','));
    return mf_json_expect(j, ']', field);
}
