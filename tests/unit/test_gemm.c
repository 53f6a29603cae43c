/* Matrix products and inner loops of every instruction set: against sums in double, and against each other to the bit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/kern.h"
#include "tap.h"

static float *normal(size_t n)
{
    static uint32_t draw;
    struct mf_rng rng = mf_rng_at(6, MF_RNG_TEST, draw++, 0, 0);
    float *x = malloc(sizeof *x * (n + 1));
    mf_rng_normal(&rng, x, n);
    return x;
}

/* The products of one instruction set in one precision. */
struct route {
    const char *name;
    const struct mf_products *by;
};

static struct mf_pack new_pack(const struct mf_products *by, int K, int N)
{
    return (struct mf_pack){
        .K = K, .N = N, .data = aligned_alloc(64, (by->pack_floats(K, N) * sizeof(float) + 63) / 64 * 64)};
}

static double product(const struct route *r, int M, int K, int N, bool turned)
{
    struct mf_pack p = new_pack(r->by, K, N);
    int ldw = (turned ? N : K) + 3;
    float *W = normal((size_t)(turned ? K : N) * (size_t)ldw), *x = normal((size_t)M * (size_t)K),
          *b = normal((size_t)N);
    float *y = normal((size_t)M * (size_t)N), *old = malloc(sizeof *y * (size_t)M * (size_t)N);
    struct mf_tensor rows = {.rows = 1, .cols = N}, r0 = {.data = normal((size_t)M * (size_t)N), .rows = 1, .cols = N};
    struct mf_tensor r1 = {.data = normal((size_t)N), .rows = 1, .cols = N, .shared = true};
    struct mf_epilogue e = {.b = b, .y = &rows, .r = {&r0, &r1}, .act = MF_ACT_RELU}, add = {.y = &rows, .add = true};
    double worst = 0.0;
    memcpy(old, y, sizeof *y * (size_t)M * (size_t)N);
    r->by->pack(&p, W, ldw, turned);
    for (int pass = 0; pass < 2; pass++) { /* y += x w, then y = relu(x w + ..) */
        const struct mf_epilogue *use = pass ? &e : &add;
        r->by->times(&p, M, x, y, use);
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                double sum =
                    pass ? (double)b[n] + (double)r0.data[m * N + n] + (double)r1.data[n] : (double)old[m * N + n];
                for (int k = 0; k < K; k++)
                    sum += (double)x[m * K + k] * (double)W[turned ? k * ldw + n : n * ldw + k];
                worst = worse(worst, fabs((pass && sum < 0.0 ? 0.0 : sum) - (double)y[m * N + n]));
            }
    }
    free(p.data), free(W), free(x), free(b), free(y), free(old), free(r0.data), free(r1.data);
    return worst / sqrt((double)K + 3.0);
}

static void products(const struct route *r, double bound)
{
    static const int sizes[][3] = {{1, 1, 1},   {1, 12, 64}, {2, 39, 70},  {3, 16, 33},  {4, 7, 512},  {5, 130, 12},
                                   {6, 64, 16}, {7, 33, 17}, {13, 12, 12}, {48, 20, 96}, {97, 64, 40}, {200, 31, 25}};
    double worst = 0.0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int turned = 0; turned < 2; turned++)
            worst = worse(worst, product(r, sizes[i][0], sizes[i][1], sizes[i][2], turned));
    ok(worst < bound, "%s: products of every shape within %.1g sqrt(K)", r->name, worst);
}

/* Whoever makes which part of y, every element is made once, of the same bits. */
static void parts(const struct route *r)
{
    static const int rows[] = {1, 47, 96, 335}, shares[] = {1, 2, 3, 7, 11};
    enum { K = 40, N = 130 };
    float *W = normal(N * K), *x = normal(335 * K), *whole = malloc(sizeof *whole * 335 * N),
          *y = malloc(sizeof *y * 335 * N);
    struct mf_tensor is = {.rows = 1, .cols = N};
    struct mf_pack p = new_pack(r->by, K, N);
    int unlike = 0;
    r->by->pack(&p, W, K, false);
    for (int m = 0; m < 4; m++) {
        size_t size = sizeof *y * (size_t)rows[m] * N;
        r->by->times(&p, rows[m], x, whole, &(struct mf_epilogue){.y = &is, .act = MF_ACT_GELU});
        for (int s = 0; s < 5; s++) {
            memset(y, 0xff, size);
            for (int i = 0; i < shares[s]; i++)
                r->by->times(&p, rows[m], x, y,
                             &(struct mf_epilogue){.y = &is, .act = MF_ACT_GELU, .part = i, .parts = shares[s]});
            unlike += memcmp(y, whole, size) != 0;
        }
    }
    ok(unlike == 0, "%s: parts of a product, rows or columns, are the whole to the bit", r->name);
    free(W), free(x), free(whole), free(y), free(p.data);
}

/* Where much of up to four neighbouring rows is zero, their products with zeros are left out. A row then has the bits
 * that it has among dense rows, of which nothing is left out.
 */
static void zeros(const struct route *r)
{
    static const int sizes[] = {64, 68, 70, 300, 512, 8000};
    enum { M = 131, N = 130, PARTS = 3 };
    struct mf_tensor is = {.rows = 1, .cols = N}, r0 = {.data = normal((M + 3) * N), .rows = 1, .cols = N};
    float *y = normal((M + 3) * N), *dense = malloc(sizeof *y * (M + 3) * N), *b = normal(N);
    int unlike = 0;
    for (int s = 0; s < 6; s++) {
        int K = sizes[s];
        float *W = normal((size_t)(N * K)), *x = normal((size_t)(M * K)), *kept = normal((size_t)(M * K)),
              *row = normal((size_t)(4 * K));
        struct mf_pack p = new_pack(r->by, K, N);
        for (int m = 0; m < M;
             m++) /* some rows are dense, four are zero, the others mostly where their neighbours are */
            for (int k = 0; k < K; k++)
                if (m / 4 == 2 || (m / 4 != 4 && (kept[m / 4 * K + k] < 0.3f || kept[m * K + k] > 1.0f)))
                    x[m * K + k] = 0.0f;
        x[5 * K + 1] = NAN;
        r->by->pack(&p, W, K, false);
        const struct mf_epilogue how[] = {{.b = b, .y = &is},
                                          {.y = &is, .add = true},
                                          {.y = &is, .r = {&r0}, .act = MF_ACT_RELU},
                                          {.y = &is, .act = MF_ACT_MISH}};
        for (int e = 0; e < 4; e++) {
            memcpy(dense, y, sizeof *y * M * N);
            for (int m = 0; m < M; m++) {
                float before[3 * N];
                struct mf_tensor of = r0;
                struct mf_epilogue one = how[e];
                of.data += (size_t)m * N;
                one.r[0] = one.r[0] ? &of : NULL;
                memcpy(row, x + (size_t)m * (size_t)K, sizeof *x * (size_t)K);
                memcpy(before, dense + (size_t)(m + 1) * N, sizeof before);
                r->by->times(&p, 4, row, dense + (size_t)m * N, &one);
                memcpy(dense + (size_t)(m + 1) * N, before, sizeof before);
            }
            for (int few = 1; few <= 3; few++) {
                float some[3 * N];
                memcpy(some, y, sizeof *y * (size_t)few * N);
                r->by->times(&p, few, x, some, &how[e]);
                unlike += memcmp(some, dense, sizeof *y * (size_t)few * N) != 0;
            }
            for (int i = 0; i < PARTS; i++) {
                struct mf_epilogue part = how[e];
                part.part = i, part.parts = e % 2 ? PARTS : 0;
                if (i == 0 || part.parts)
                    r->by->times(&p, M, x, y, &part);
            }
            unlike += memcmp(y, dense, sizeof *y * M * N) != 0;
        }
        free(W), free(x), free(kept), free(row), free(p.data);
    }
    ok(unlike == 0, "%s: rows with zeros have the bits that they have among dense rows", r->name);
    free(y), free(dense), free(b), free(r0.data);
}

/* Weights that stay bf16 where they are, at an odd address, against the packed ones of the same values. */
static void stored(const struct route *r)
{
    static const int sizes[][3] = {{1, 1, 1},    {2, 39, 70},    {3, 16, 33},   {4, 7, 512},    {5, 130, 12},
                                   {7, 2049, 9}, {10, 4099, 40}, {97, 64, 100}, {101, 2500, 50}};
    int unlike = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int M = sizes[i][0], K = sizes[i][1], N = sizes[i][2], ld = K + 5;
        const size_t size = (size_t)M * (size_t)N;
        float *W = normal((size_t)(N * ld)), *x = normal((size_t)(M * K)), *b = normal((size_t)N), *y = normal(size),
              *want = malloc(sizeof *y * size),
              *work = malloc(sizeof *work * (r->by->stored_floats ? r->by->stored_floats(M) : 1));
        char *bf16 = malloc((size_t)(N * ld) * 2 + 1);
        for (int j = 0; j < N * ld; j++) {
            uint32_t bits;
            memcpy(&bits, &W[j], sizeof bits);
            bits &= 0xffff0000;
            memcpy(&W[j], &bits, sizeof bits);
            memcpy(bf16 + 1 + 2 * j, (char *)&W[j] + 2, 2);
        }
        struct mf_pack p = new_pack(r->by, K, N), s = {.K = K, .N = N, .bf16 = bf16 + 1, .ld = (size_t)ld};
        struct mf_tensor is = {.rows = 1, .cols = N}, r0 = {.data = normal(size), .rows = 1, .cols = N};
        struct mf_epilogue e = {.b = b, .y = &is, .r = {&r0}, .act = i % 2 ? MF_ACT_GELU : MF_ACT_NONE, .work = work};
        r->by->pack(&p, W, ld, false);
        r->by->times(&p, M, x, want, &e);
        r->by->times(&s, M, x, y, &e);
        unlike += memcmp(y, want, sizeof *y * size) != 0;
        for (e.parts = 3, e.part = 0; e.part < 3; e.part++)
            r->by->times(&s, M, x, y, &e);
        unlike += memcmp(y, want, sizeof *y * size) != 0;
        free(W), free(x), free(b), free(y), free(want), free(work), free(bf16), free(p.data), free(r0.data);
    }
    ok(unlike == 0, "%s: weights that stay bf16 in a file give the bits of packed ones", r->name);
}

/* Large weights, which are read once for all rows, give the bits of a product with one row. */
static void large(const struct route *r)
{
    enum { M = 66, K = 2100, N = 520 };
    struct mf_pack p = new_pack(r->by, K, N);
    float *W = normal(K * N), *x = normal(M * K), *y = normal(M * N), *one = normal(N), *r0 = normal(N);
    struct mf_tensor rows = {.rows = 1, .cols = N}, add = {.data = r0, .rows = 1, .cols = N, .shared = true};
    struct mf_epilogue e = {.y = &rows, .r = {&add}, .parts = 3};
    int off = 0;
    r->by->pack(&p, W, K, false);
    for (; e.part < 3; e.part++)
        r->by->times(&p, M, x, y, &e);
    e.parts = 0;
    for (int m = 0; m < M; m += 13) {
        r->by->times(&p, 1, x + m * K, one, &e);
        off += memcmp(one, y + m * N, sizeof *one * N) != 0;
    }
    ok(off == 0, "%s: large weights change no bit", r->name);
    free(p.data), free(W), free(x), free(y), free(one), free(r0);
}

static void outer(const struct route *r, double bound)
{
    double worst = 0.0;
    for (int M = 0; M < 40; M += 13) {
        int O = 7 + 4 * M, I = 21 + M, live[40], n = 0;
        float *d = normal(40 * (size_t)O), *x = normal(40 * (size_t)I), *dw = calloc((size_t)(O * (I + 2)), sizeof *dw);
        float *work = calloc(r->by->outer_floats(40, O, I), sizeof *work);
        for (int m = 0; m < M; m++)
            if (m % 3)
                live[n++] = m;
        for (int at = 0; at < O * (I + 2); at++)
            dw[at] = at % (I + 2) < I ? NAN : 0.0f;
        for (int pass = 0; pass < 2; pass++) { /* it sets, then adds, once in parts */
            const struct mf_outer o = {n, O, I, live, d, x, pass == 0, dw, work, I + 2};
            int parts = M == 26 ? 3 : 1 + 2 * pass;
            for (int i = parts - 1; i >= 0; i--)
                r->by->pack_rows(&o, i, parts);
            for (int i = 0; i < parts; i++)
                r->by->outer(&o, i, parts);
        }
        for (int o = 0; o < O; o++)
            for (int i = 0; i < I + 2; i++) {
                double sum = 0.0;
                for (int m = 0; m < n && i < I; m++)
                    sum += 2.0 * (double)d[live[m] * O + o] * (double)x[live[m] * I + i];
                worst = worse(worst, fabs(sum - (double)dw[o * (I + 2) + i]));
            }
        free(d), free(x), free(dw), free(work);
    }
    ok(worst < bound, "%s: outer products of the rows that live, whole and in parts", r->name);
}

enum { POINTS = 200001 };

/* Largest error over [low, high] to libm in double, relative to 1 + |y| (or to |y| alone). */
static void function(const struct mf_kern *k, const char *name, int which, double low, double high, bool relative,
                     double bound)
{
    float *x = malloc(sizeof *x * POINTS), *y = malloc(sizeof *y * POINTS), *d = malloc(sizeof *d * POINTS);
    double worst = 0.0, at = 0.0;
    for (int i = 0; i < POINTS; i++)
        x[i] = (float)(low + (high - low) * i / (POINTS - 1));
    bool slopes = which == MF_ACT_MISH || which == MF_ACT_GELU_ERF;
    if (which <= MF_ACT_GELU_ERF)
        k->act((enum mf_act)which, POINTS, x, y, slopes ? d : NULL);
    else if (which == 10)
        k->exp(POINTS, x, y);
    else
        k->log(POINTS, x, y);
    for (int i = 0; i < POINTS; i++) {
        double v = (double)x[i], t = tanh(log1p(exp(v))), p = 0.5 * erfc(-v / sqrt(2.0)), want, slope = 0.0;
        want = which == MF_ACT_TANH       ? tanh(v)
               : which == MF_ACT_MISH     ? v * t
               : which == MF_ACT_GELU_ERF ? v * p
               : which == 10              ? exp(v)
                                          : log(v);
        double e = fabs((double)y[i] - want) / (relative ? fabs(want) + 1e-30 : 1.0 + fabs(want));
        if (slopes) {
            slope = which == MF_ACT_MISH ? t + v * (1.0 - t * t) / (1.0 + exp(-v))
                                         : p + v * exp(-0.5 * v * v) / sqrt(2.0 * acos(-1.0));
            e = worse(e, fabs((double)d[i] - slope) / (1.0 + fabs(slope)));
        }
        if (e > worst)
            worst = e, at = v;
    }
    ok(worst <= bound, "%s: %s off by at most %.2g", k->name, name, worst);
    if (worst > bound)
        printf("#   at %.9g\n", at);
    free(x), free(y), free(d);
}

static void functions(const struct mf_kern *k)
{
    function(k, "exp", 10, -87.0, 88.0, true, 2e-7);
    function(k, "log", 11, 1e-30, 1e-3, false, 2e-7);
    function(k, "log near 1", 11, 0.5, 2.0, false, 1e-7);
    function(k, "tanh", MF_ACT_TANH, -12.0, 12.0, false, 2e-7);
    function(k, "tanh near 0", MF_ACT_TANH, -0.01, 0.01, true, 4e-7);
    function(k, "mish and its slope", MF_ACT_MISH, -30.0, 30.0, false, 3e-7);
    function(k, "exact GELU and its slope", MF_ACT_GELU_ERF, -30.0, 30.0, false, 2e-7);
    float x[9] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, y[9], d[9], nans = 0.0f;
    for (int act = MF_ACT_MISH; act <= MF_ACT_GELU_ERF; act++) {
        k->act((enum mf_act)act, 9, x, y, d);
        for (int i = 0; i < 9; i++)
            nans += y[i] != y[i];
    }
    ok(nans == 45.0f, "%s: NaN comes out as NaN", k->name);
}

/* Random products, sums of outer products and activations, as bytes: those of two instruction sets in the same order.
 */
static uint64_t digest_of(const struct mf_kern *k, const struct mf_products *by)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 40; i++) {
        struct mf_rng rng = mf_rng_at(7, MF_RNG_TEST, (uint32_t)i, 0, 0);
        const int M = 1 + (int)(mf_rng_u32(&rng) % 70), K = 1 + (int)(mf_rng_u32(&rng) % 200),
                  N = 1 + (int)(mf_rng_u32(&rng) % 120);
        const size_t mk = (size_t)(M * K), kn = (size_t)(K * N), mn = (size_t)(M * N);
        float *all = malloc(sizeof *all * (mk + 2 * kn + 3 * mn)), *x = all, *W = x + mk, *dw = W + kn, *r0 = dw + kn,
              *y = r0 + mn, *slope = y + mn, *work = calloc(by->outer_floats(M, N, K), sizeof *work);
        struct mf_tensor is = {.rows = 1, .cols = N}, res = {.data = r0, .rows = 1, .cols = N};
        struct mf_pack p = new_pack(by, K, N);
        int live[70];
        mf_rng_normal(&rng, all, mk + 2 * kn + 3 * mn);
        for (size_t j = 0; j < mk; j++)
            x[j] = i % 2 && x[j] < 0.3f ? 0.0f : x[j];
        for (int m = 0; m < M; m++)
            live[m] = m;
        by->pack(&p, W, i % 3 ? K : N, i % 3 == 0);
        by->times(&p, M, x, y,
                  &(struct mf_epilogue){.b = r0,
                                        .y = &is,
                                        .r = {&res},
                                        .act = (enum mf_act)(i % 7),
                                        .slope = i % 7 > MF_ACT_RELU ? slope : NULL});
        const struct mf_outer o = {M, N, K, live, y, x, i % 2, dw, work, K};
        by->pack_rows(&o, 0, 1);
        by->outer(&o, 0, 1);
        k->exp(kn, W, W);
        k->act_back(MF_ACT_GELU, mn, r0, y, slope);
        for (size_t j = 0; j < sizeof *all / 4 * (mk + 2 * kn + 3 * mn); j++)
            hash = (hash ^ ((const uint32_t *)(const void *)all)[j]) * 1099511628211u;
        free(all), free(work), free(p.data);
    }
    return hash;
}

static void same_bits(const struct mf_kern *const *kern, int n)
{
    for (int i = 1; i < n; i++) {
        ok(digest_of(kern[i], kern[i]->fp32) == digest_of(kern[0], kern[0]->fp32), "%s has the bits of %s in fp32",
           kern[i]->name, kern[0]->name);
        ok(digest_of(kern[i], kern[i]->bf16) == digest_of(kern[0], kern[0]->bf16),
           "%s has the bits of %s in rounded bf16", kern[i]->name, kern[0]->name);
    }
}

int main(void)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    const bool pairs = avx512 && __builtin_cpu_supports("avx512bf16");
    const struct mf_kern *const kern[] = {&mf_kern_base, &mf_kern_avx2, &mf_kern_avx512};
    const int n = avx512 ? 3 : avx2 ? 2 : 1;
    for (int i = 0; i < n; i++) {
        const struct route both[] = {{kern[i]->name, kern[i]->fp32}, {kern[i]->bf16->name, kern[i]->bf16}};
        for (int b = 0; b < 2; b++) {
            products(&both[b], b ? 3e-2 : 4e-6);
            outer(&both[b], b ? 2e-1 : 2e-5);
            parts(&both[b]);
            zeros(&both[b]);
            stored(&both[b]);
            large(&both[b]);
        }
        functions(kern[i]);
    }
    same_bits(kern, n);
    const struct route native = {"bf16 in pairs", &mf_products_avx512_bf16};
    if (pairs) {
        products(&native, 3e-2);
        outer(&native, 2e-1);
        parts(&native);
        zeros(&native);
        stored(&native);
    } else {
        skip(native.name, "this processor has no avx512_bf16");
    }
    return done();
}
