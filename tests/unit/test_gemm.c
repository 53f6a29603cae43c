/* The matrix routes and inner loops themselves: every instruction set and route against sums in double. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "dev/kern.h"
#include "tap.h"

static float *normal(size_t n)
{
    static uint32_t draw;
    struct mf_rng rng = mf_rng_at(6, MF_RNG_TEST, draw++, 0, 0);
    float *x = malloc(sizeof *x * (n + 1));
    mf_rng_normal(&rng, x, n);
    return x;
}

/* A route, or the kernels of one instruction set. */
struct route {
    const char *name;
    const struct mf_gemm *gemm;
    const struct mf_kern *kern;
};

static double product(const struct route *r, int M, int K, int N, bool turned)
{
    struct mf_pack p;
    struct mf_err err;
    int ldw = (turned ? N : K) + 3;
    float *W = normal((size_t)(turned ? K : N) * (size_t)ldw), *x = normal((size_t)M * (size_t)K),
          *b = normal((size_t)N);
    float *y = normal((size_t)M * (size_t)N), *old = malloc(sizeof *y * (size_t)M * (size_t)N);
    struct mf_tensor rows = {.rows = 1, .cols = N}, r0 = {.data = normal((size_t)M * (size_t)N), .rows = 1, .cols = N};
    struct mf_tensor r1 = {.data = normal((size_t)N), .rows = 1, .cols = N, .shared = true};
    struct mf_epilogue e = {.b = b, .y = &rows, .r = {&r0, &r1}, .act = MF_ACT_RELU}, add = {.y = &rows, .add = true};
    double worst = 0.0;
    memcpy(old, y, sizeof *y * (size_t)M * (size_t)N);
    float *room = aligned_alloc(64, (r->gemm->pack_bytes(K, N) + 63) / 64 * 64);
    if (r->gemm->pack_init(&p, K, N, room, &err))
        return 1.0;
    r->kern ? r->kern->pack(&p, W, ldw, turned) : r->gemm->pack(&p, W, ldw, turned);
    for (int pass = 0; pass < 2; pass++) { /* y += x w, then y = relu(x w + ..) */
        const struct mf_epilogue *use = pass ? &e : &add;
        r->kern ? r->kern->times(&p, M, x, y, use) : r->gemm->times(&p, M, x, y, use);
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                double sum =
                    pass ? (double)b[n] + (double)r0.data[m * N + n] + (double)r1.data[n] : (double)old[m * N + n];
                for (int k = 0; k < K; k++)
                    sum += (double)x[m * K + k] * (double)W[turned ? k * ldw + n : n * ldw + k];
                worst = fmax(worst, fabs((pass && sum < 0.0 ? 0.0 : sum) - (double)y[m * N + n]));
            }
    }
    r->gemm->pack_release(&p);
    free(room), free(W), free(x), free(b), free(y), free(old), free(r0.data), free(r1.data);
    return worst / sqrt((double)K + 3.0);
}

static void products(const struct route *r, double bound)
{
    static const int sizes[][3] = {{1, 1, 1},   {1, 12, 64}, {2, 39, 70},  {3, 16, 33},  {4, 7, 512},  {5, 130, 12},
                                   {6, 64, 16}, {7, 33, 17}, {13, 12, 12}, {48, 20, 96}, {97, 64, 40}, {200, 31, 25}};
    double worst = 0.0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int turned = 0; turned < 2; turned++)
            worst = fmax(worst, product(r, sizes[i][0], sizes[i][1], sizes[i][2], turned));
    ok(worst < bound, "%s: products of every shape within %.1g sqrt(K)", r->name, worst);
}

/* Whoever makes which part of y, every element is made once, of the same bits. */
static void parts(const struct route *r)
{
    static const int rows[] = {1, 47, 96, 335}, shares[] = {1, 2, 3, 7, 11};
    enum { K = 40, N = 130 };
    float *W = normal(N * K), *x = normal(335 * K), *whole = malloc(sizeof *whole * 335 * N),
          *y = malloc(sizeof *y * 335 * N);
    float *room = aligned_alloc(64, (r->gemm->pack_bytes(K, N) + 63) / 64 * 64);
    struct mf_tensor is = {.rows = 1, .cols = N};
    struct mf_pack p;
    struct mf_err err;
    int unlike = 0;
    r->gemm->pack_init(&p, K, N, room, &err);
    r->kern->pack(&p, W, K, false);
    for (int m = 0; m < 4; m++) {
        size_t size = sizeof *y * (size_t)rows[m] * N;
        r->kern->times(&p, rows[m], x, whole, &(struct mf_epilogue){.y = &is, .act = MF_ACT_GELU});
        for (int s = 0; s < 5; s++) {
            memset(y, 0xff, size);
            for (int i = 0; i < shares[s]; i++)
                r->kern->times(&p, rows[m], x, y,
                               &(struct mf_epilogue){.y = &is, .act = MF_ACT_GELU, .part = i, .parts = shares[s]});
            unlike += memcmp(y, whole, size) != 0;
        }
    }
    ok(unlike == 0, "%s: parts of a product, rows or columns, are the whole to the bit", r->name);
    r->gemm->pack_release(&p);
    free(W), free(x), free(whole), free(y), free(room);
}

/* What is zero in four rows is left out where that is much of them: alone, where nothing is, a row has the same bits.
 */
static void zeros(const struct route *r)
{
    static const int sizes[] = {64, 68, 70, 300, 512, 8000};
    enum { M = 131, N = 130, PARTS = 3 };
    struct mf_tensor is = {.rows = 1, .cols = N}, r0 = {.data = normal(M * N), .rows = 1, .cols = N};
    float *y = normal(M * N), *alone = malloc(sizeof *y * M * N), *b = normal(N);
    int unlike = 0;
    for (int s = 0; s < 6; s++) {
        int K = sizes[s];
        float *W = normal((size_t)(N * K)), *x = normal((size_t)(M * K)), *kept = normal((size_t)(M * K));
        float *room = aligned_alloc(64, (r->gemm->pack_bytes(K, N) + 63) / 64 * 64);
        struct mf_pack p;
        struct mf_err err;
        for (int m = 0; m < M;
             m++) /* some rows are dense, four are zero, the others mostly where their neighbours are */
            for (int k = 0; k < K; k++)
                if (m / 4 == 2 || (m / 4 != 4 && (kept[m / 4 * K + k] < 0.3f || kept[m * K + k] > 1.0f)))
                    x[m * K + k] = 0.0f;
        x[5 * K + 1] = NAN;
        r->gemm->pack_init(&p, K, N, room, &err);
        r->kern->pack(&p, W, K, false);
        const struct mf_epilogue how[] = {{.b = b, .y = &is},
                                          {.y = &is, .add = true},
                                          {.y = &is, .r = {&r0}, .act = MF_ACT_RELU},
                                          {.y = &is, .act = MF_ACT_MISH}};
        for (int e = 0; e < 4; e++) {
            memcpy(alone, y, sizeof *y * M * N);
            for (int m = 0; m < M; m++) {
                struct mf_tensor row = r0;
                struct mf_epilogue one = how[e];
                row.data += (size_t)m * N;
                one.r[0] = one.r[0] ? &row : NULL;
                r->kern->times(&p, 1, x + (size_t)m * (size_t)K, alone + (size_t)m * N, &one);
            }
            for (int i = 0; i < PARTS; i++) {
                struct mf_epilogue part = how[e];
                part.part = i, part.parts = e % 2 ? PARTS : 0;
                if (i == 0 || part.parts)
                    r->kern->times(&p, M, x, y, &part);
            }
            unlike += memcmp(y, alone, sizeof *y * M * N) != 0;
        }
        r->gemm->pack_release(&p);
        free(W), free(x), free(kept), free(room);
    }
    ok(unlike == 0, "%s: rows with zeros have the bits that each has alone", r->name);
    free(y), free(alone), free(b), free(r0.data);
}

static void outer(const struct route *r, double bound)
{
    double worst = 0.0;
    struct mf_err err;
    for (int M = 0; M < 40; M += 13) {
        int O = 7 + 4 * M, I = 21 + M, live[40], n = 0;
        float *d = normal(40 * (size_t)O), *x = normal(40 * (size_t)I), *dw = calloc((size_t)(O * (I + 2)), sizeof *dw);
        float *work = calloc(mf_kern_work(40, O, I), sizeof *work);
        struct mf_pack p;
        for (int m = 0; m < M; m++)
            if (m % 3)
                live[n++] = m;
        for (int at = 0; r->kern && at < O * (I + 2); at++)
            dw[at] = at % (I + 2) < I ? NAN : 0.0f;
        float *room = aligned_alloc(64, (r->gemm->pack_bytes(I, O) + 63) / 64 * 64);
        r->gemm->pack_init(&p, I, O, room, &err);
        for (int pass = 0; pass < 2; pass++) { /* it sets, then adds, once in parts */
            const struct mf_outer o = {n, O, I, live, d, x, pass == 0, dw, work, I + 2};
            int parts = M == 26 ? 3 : 1 + 2 * pass;
            for (int i = parts - 1; i >= 0 && r->kern; i--)
                r->kern->pack_rows(&o, i, parts);
            for (int i = 0; i < parts && r->kern; i++)
                r->kern->outer(&o, i, parts);
            if (!r->kern)
                r->gemm->outer(&p, n, live, d, x, dw, I + 2);
        }
        for (int o = 0; o < O; o++)
            for (int i = 0; i < I + 2; i++) {
                double sum = 0.0;
                for (int m = 0; m < n && i < I; m++)
                    sum += 2.0 * (double)d[live[m] * O + o] * (double)x[live[m] * I + i];
                worst = fmax(worst, fabs(sum - (double)dw[o * (I + 2) + i]));
            }
        r->gemm->pack_release(&p);
        free(room), free(d), free(x), free(dw), free(work);
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
    if (which < MF_ACT_MISH + 2)
        k->act((enum mf_act)which, POINTS, x, y, which == MF_ACT_MISH ? d : NULL);
    else if (which == 10)
        k->exp(POINTS, x, y);
    else
        k->log(POINTS, x, y);
    for (int i = 0; i < POINTS; i++) {
        double v = (double)x[i], t = tanh(log1p(exp(v))), want, slope = 0.0;
        want = which == MF_ACT_TANH ? tanh(v) : which == MF_ACT_MISH ? v * t : which == 10 ? exp(v) : log(v);
        double e = fabs((double)y[i] - want) / (relative ? fabs(want) + 1e-30 : 1.0 + fabs(want));
        if (which == MF_ACT_MISH) {
            slope = t + v * (1.0 - t * t) / (1.0 + exp(-v));
            e = fmax(e, fabs((double)d[i] - slope) / (1.0 + fabs(slope)));
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
    float x[9] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, y[9], d[9], nans = 0.0f;
    for (int act = MF_ACT_MISH; act <= MF_ACT_TANH; act++) {
        k->act((enum mf_act)act, 9, x, y, d);
        for (int i = 0; i < 9; i++)
            nans += y[i] != y[i];
    }
    ok(nans == 18.0f, "%s: NaN comes out as NaN", k->name);
}

int main(void)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    struct route routes[] = {{"base", &mf_gemm_own, &mf_kern_base},
                             {"avx2", &mf_gemm_own, &mf_kern_avx2},
                             {"oneDNN", &mf_gemm_dnn, NULL},
                             {"oneDNN bf16", &mf_gemm_dnn_bf16, NULL}};
    bool there[] = {true, avx2, true, mf_gemm_choose(true) != NULL};
    for (int i = 0; i < 4; i++) {
        if (!there[i]) {
            skip(routes[i].name, "this processor has none");
            continue;
        }
        products(&routes[i], i < 3 ? 4e-6 : 3e-2);
        outer(&routes[i], i < 3 ? 2e-5 : 2e-1);
        if (routes[i].kern) {
            parts(&routes[i]);
            zeros(&routes[i]);
            functions(routes[i].kern);
        }
    }
    return done();
}
