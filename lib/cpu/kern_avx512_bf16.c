/* kern_avx512_bf16.c - products of pairs of bf16, two multiply-adds a lane at a time (AVX512-BF16); the Makefile
 * compiles this file for it. A word is a pair: of neighbours along k, or of rows where those are summed over.
 */
#include "cpu/kern_zmm.inc"

INLINE vw macw(vw a, vw b, vw c)
{
    return (vw)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
}

#define PAIR         2
#define MULTIPLY_ADD "vdpbf16ps"
#include "cpu/kern_rows.inc"
#include "cpu/kern_gemm.inc"
#include "cpu/kern_stored.inc"
#include "cpu/kern_outer.inc"

enum { GROUP = 8 }; /* words that are turned together */

/* Rounded, and interleaved: word i is low[i], high[i]. */
INLINE vw pairw(vw low, vw high)
{
    const iw i = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    return (vw)_mm512_permutexvar_epi16((__m512i)(i | (i + 16) << 16), halves);
}

/* A row of n numbers as (n + 1) / 2 words. */
static void to_pairs(size_t n, const float *x, float *words)
{
    for (size_t i = 0; i < n; i += 2 * LANES, words += LANES) {
        int left = n - i < 2 * LANES ? (int)(n - i) : 2 * LANES, high = left > LANES ? left - LANES : 0;
        __m512bh pairs =
            _mm512_cvtne2ps_pbh((__m512)loadw_n(x + i + (high ? LANES : 0), high), (__m512)loadw_n(x + i, left));
        storew_n(words, (vw)pairs, (left + 1) / 2);
    }
}

/* Words of a panel from w's rows W[n*ld + k]: 2 GROUP k of a time become words, then columns. */
static void pack_rows_of_w(int width, int K, int n, const float *W, size_t ld, float *to)
{
    float words[WIDE][GROUP];
    for (int k = 0; k < K; k += 2 * GROUP, to += GROUP * width) {
        int some = K - k < 2 * GROUP ? K - k : 2 * GROUP, pairs = (some + 1) / 2;
        memset(words, 0, sizeof words);
        for (int i = 0; i < n; i++)
            to_pairs((size_t)some, W + (size_t)i * ld + k, words[i]);
        for (int i = 0; i < width && pairs == GROUP; i += 8)
            turn8(words[i], GROUP, to + i, (size_t)width);
        for (int p = 0; p < pairs && pairs < GROUP; p++)
            for (int i = 0; i < width; i++)
                to[p * width + i] = words[i][p];
    }
}

/* Of rows over k, W[k*ld + n], or those that a list names: two rows, or one and zeros, become a row of words. */
INLINE void pair_rows(int width, int n, const float *low, const float *high, float *to)
{
    for (int i = 0; i < width; i += LANES)
        if (n >= i + LANES && high)
            storew(to + i, pairw(loadw(low + i), loadw(high + i)));
        else {
            int left = n > i ? n - i : 0, at = left ? i : 0;
            storew(to + i, pairw(loadw_n(low + at, left), high ? loadw_n(high + at, left) : allw(0.0f)));
        }
}

static void pack(struct mf_pack *p, const float *W, int ldw, bool turned)
{
    const size_t ld = (size_t)ldw, words = (size_t)(p->K + 1) / 2;
    for (int j = 0, panels = mf_panels(LANES, p->N); j < panels; j++) {
        int col = mf_column(LANES, p->N, j), width = mf_column(LANES, p->N, j + 1) - col;
        int n = p->N - col < width ? p->N - col : width;
        float *to = p->data + (size_t)col * words;
        if (!turned)
            pack_rows_of_w(width, p->K, n, W + (size_t)col * ld, ld, to);
        for (int k = 0; turned && k < p->K; k += 2, to += width) {
            const float *row = W + (size_t)k * ld + col;
            pair_rows(width, n, row, k + 1 < p->K ? row + ld : NULL, to);
        }
    }
}

static void times(const struct mf_pack *p, int M, const float *x, float *y, const struct mf_epilogue *e)
{
    float room[CHUNK_FLOATS];
    if (p->bf16)
        times_stored(p, to_pairs, M, x, y, e);
    else
        times_of(p, (p->K + 1) / 2, to_pairs, room, M, x, y, e);
}

/* GROUP words of a vector's columns of d, turned. */
static void turn_pairs(int words, const float *const *row, int col, int n, float *to, size_t apart)
{
    float pairs[GROUP][LANES];
    for (int w = 0; w < words; w++)
        pair_rows(LANES, n, row[2 * w] + col, row[2 * w + 1] ? row[2 * w + 1] + col : NULL, pairs[w]);
    if (words == GROUP && n >= LANES)
        for (int i = 0; i < LANES; i += 8)
            turn8(pairs[0] + i, LANES, to + (size_t)i * apart, apart);
    else
        for (int i = 0; i < n && i < LANES; i++)
            for (int w = 0; w < words; w++)
                to[(size_t)i * apart + (size_t)w] = pairs[w][i];
}

static void pack_rows(const struct mf_outer *o, int part, int parts)
{
    int from, end, O = o->O, I = o->I, M = (o->M + 1) / 2;
    const size_t apart = turned_apart(o->M);
    mf_part_of(part, parts, M, &from, &end);
    for (int w0 = from; w0 < end; w0 += GROUP) {
        const int some = end - w0 < GROUP ? end - w0 : GROUP;
        const float *x[2 * GROUP] = {NULL}, *d[2 * GROUP] = {NULL};
        for (int m = 0; m < 2 * some && 2 * w0 + m < o->M; m++) {
            x[m] = o->x + (size_t)o->live[2 * w0 + m] * (size_t)I;
            d[m] = o->d + (size_t)o->live[2 * w0 + m] * (size_t)O;
        }
        for (int j = 0, panels = mf_panels(LANES, I); j < panels; j++) {
            int col = mf_column(LANES, I, j), width = mf_column(LANES, I, j + 1) - col;
            float *to = o->work + (size_t)col * (size_t)M + (size_t)(w0 * width);
            for (int w = 0; w < some; w++, to += width)
                pair_rows(width, I - col, x[2 * w] + col, x[2 * w + 1] ? x[2 * w + 1] + col : NULL, to);
        }
        for (int i = 0; i < O; i += LANES)
            turn_pairs(some, d, i, O - i, turned_rows(o) + (size_t)i * apart + w0, apart);
    }
}

const struct mf_products mf_products_avx512_bf16 = {
    .name = "bf16",
    .pack_floats = pack_floats,
    .pack = pack,
    .stored_floats = stored_floats,
    .times = times,
    .outer_floats = outer_floats,
    .pack_rows = pack_rows,
    .outer = outer,
    .most_inputs = 2 * CHUNK_FLOATS,
};
