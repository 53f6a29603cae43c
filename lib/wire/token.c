#include "wire/token.h"

#include <string.h>

static uint64_t big(const uint8_t *p, int n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | *p++;
    return v;
}

static void number(struct mf_token *t, int64_t v)
{
    t->type = v < 0 ? MF_SINT : MF_UINT;
    t->i = v;
}

/* 0xc0 .. 0xdf by their low five bits: the type, and the bytes of the number that follows the first. */
static const struct {
    int8_t type, wide;
} row[32] = {
    {MF_NIL, 0},  {-1, 0},      {MF_TRUTH, 0}, {MF_TRUTH, 0}, {MF_BYTES, 1}, {MF_BYTES, 2}, {MF_BYTES, 4}, {MF_EXT, 1},
    {MF_EXT, 2},  {MF_EXT, 4},  {MF_REAL, 4},  {MF_REAL, 8},  {MF_UINT, 1},  {MF_UINT, 2},  {MF_UINT, 4},  {MF_UINT, 8},
    {MF_SINT, 1}, {MF_SINT, 2}, {MF_SINT, 4},  {MF_SINT, 8},  {MF_EXT, 0},   {MF_EXT, 0},   {MF_EXT, 0},   {MF_EXT, 0},
    {MF_EXT, 0},  {MF_TEXT, 1}, {MF_TEXT, 2},  {MF_TEXT, 4},  {MF_LIST, 2},  {MF_LIST, 4},  {MF_MAP, 2},   {MF_MAP, 4},
};

static void wide_value(struct mf_token *t, uint8_t first, const uint8_t *p, int wide)
{
    uint64_t v = big(p, wide);
    uint32_t narrow = (uint32_t)v;
    float f;
    switch (t->type) {
    case MF_TRUTH:
        t->truth = first & 1;
        break;
    case MF_UINT:
        t->u = v;
        break;
    case MF_SINT: /* sign-extended from its width */
        number(t, (int64_t)(v << (64 - 8 * wide)) >> (64 - 8 * wide));
        break;
    case MF_REAL:
        memcpy(&f, &narrow, sizeof f);
        memcpy(&t->f, &v, sizeof t->f);
        if (wide == 4)
            t->f = (double)f;
        break;
    default:
        t->n = t->type == MF_EXT && !wide ? 1u << (first - 0xd4) : v;
    }
}

int mf_token_read(struct mf_token *t, const uint8_t *p, size_t len)
{
    if (!len)
        return 0;
    uint8_t b = p[0];
    *t = (struct mf_token){.head = 1};
    if (b < 0x80 || b >= 0xe0) {
        number(t, (int8_t)b);
    } else if (b < 0xc0) {
        t->type = b < 0x90 ? MF_MAP : b < 0xa0 ? MF_LIST : MF_TEXT;
        t->n = b & (b < 0xa0 ? 0x0f : 0x1f);
    } else {
        int type = row[b & 31].type, wide = row[b & 31].wide;
        if (type < 0)
            return -1;
        t->type = (enum mf_token_type)type;
        t->head = 1u + (uint32_t)wide + (type == MF_EXT); /* an ext's own type is one byte more */
        if (len < t->head)
            return 0;
        wide_value(t, b, p + 1, wide);
    }
    return 1;
}

void mf_scan_start(struct mf_scan *s)
{
    s->at = 0;
    s->depth = 0;
    s->left[0] = 1;
}

int mf_scan_more(struct mf_scan *s, const uint8_t *p, size_t have, size_t max)
{
    struct mf_token t;
    while (s->depth || s->left[0]) {
        if (s->at >= have)
            return 0;
        int rc = mf_token_read(&t, p + s->at, have - s->at);
        if (rc <= 0)
            return rc;
        bool nest = t.type == MF_LIST || t.type == MF_MAP;
        if (s->at + t.head + t.n > max) /* a child takes a byte at least; no sum here comes near 2^64 */
            return -3;
        s->at += t.head + (nest ? 0 : (size_t)t.n);
        s->left[s->depth]--;
        if (nest && t.n) {
            if (s->depth == MF_DEPTH_MAX)
                return -2;
            s->left[++s->depth] = t.type == MF_MAP ? 2 * t.n : t.n;
        }
        while (s->depth && !s->left[s->depth])
            s->depth--;
    }
    return s->at <= have;
}

size_t mf_token_span(const uint8_t *p, size_t len)
{
    struct mf_token t;
    if (mf_token_read(&t, p, len) != 1)
        return 0;
    if (t.type != MF_LIST && t.type != MF_MAP) /* the common case; the rest is comparatively expensive */
        return t.n <= len - t.head ? t.head + (size_t)t.n : 0;
    struct mf_scan s;
    mf_scan_start(&s);
    return mf_scan_more(&s, p, len, SIZE_MAX >> 1) == 1 ? s.at : 0;
}
