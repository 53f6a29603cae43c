/* Matrix products on the emulated GPU, against sums in double of the rounded operands: all forms, tiles and precisions.
 * With an argument it prints a digest of all results instead of testing them. */
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gpu.h>

#include "cuda/gemm.h"
#include "dev/act.h"
#include "drawn.h"

static const char *const names[] = {"fp32", "bf16", "tf32"}; /* by enum mf_precision */
static const float NaN = std::numeric_limits<float>::quiet_NaN();
static unsigned long long digest = 14695981039346656037ull;

static std::vector<float> drawn(size_t n)
{
    std::vector<float> v(n);
    for (float &x : v)
        x = drawn();
    return v;
}

/* A vector in device memory, `shift` floats from an aligned address. */
template <class T> struct on_device {
    T *p, *base;
    on_device(const std::vector<T> &v, int shift = 0)
    {
        cudaMalloc(&base, (v.size() + (size_t)shift) * sizeof(T));
        p = base + shift;
        cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyDefault);
    }
    on_device(const on_device &) = delete;
    ~on_device()
    {
        cudaFree(base);
    }
};

/* To `bits` of mantissa and the bit before them; halves to even, or away from zero. */
static double rounded(float x, int bits, bool even)
{
    int e;
    double m = ldexp(frexp(x, &e), bits);
    return ldexp(even ? nearbyint(m) : round(m), e - bits);
}

static double operand_of(enum mf_precision precision, float x)
{
    return precision == MF_FP32 ? (double)x : precision == MF_BF16 ? rounded(x, 8, true) : rounded(x, 11, false);
}

static std::vector<uint16_t> in_bf16(const std::vector<float> &v)
{
    std::vector<uint16_t> halves;
    for (float x : v)
        halves.push_back((uint16_t)mf_bf16(x, 0.0f));
    return halves;
}

/* A product of a given shape, on its own memory. */
struct trial {
    int M, N, K, batch = 1, shift = 0, apart = 0; /* apart: floats between the rows */
    bool A_transposed = false, B_transposed = false, add = false, A_bf16 = false, B_bf16 = false;
    std::vector<float> A, B, C;
    std::vector<unsigned char> live;
    struct mf_product epilogue = {}; /* its b, sum, act, slope */

    int lda() const
    {
        return (A_transposed ? M : K) + apart;
    }
    int ldb() const
    {
        return (B_transposed ? K : N) + apart;
    }
    size_t next_A() const
    {
        return (size_t)lda() * (size_t)(A_transposed ? K : M);
    }
    size_t next_B() const
    {
        return (size_t)ldb() * (size_t)(B_transposed ? N : K);
    }
    size_t next_C() const
    {
        return (size_t)(N + apart) * (size_t)M;
    }
    void draw()
    {
        A = drawn(next_A() * (size_t)batch), B = drawn(next_B() * (size_t)batch), C = drawn(next_C() * (size_t)batch);
    }
    float &a(int of, int m, int k)
    {
        return A[(size_t)of * next_A() + (size_t)(A_transposed ? k : m) * lda() + (A_transposed ? m : k)];
    }
    float &b(int of, int k, int n)
    {
        return B[(size_t)of * next_B() + (size_t)(B_transposed ? n : k) * ldb() + (B_transposed ? k : n)];
    }
    float &c(std::vector<float> &v, int of, int m, int n) const
    {
        return v[(size_t)of * next_C() + (size_t)m * (N + apart) + n];
    }

    std::vector<float> run(enum mf_precision precision, int tile) const /* -1: the one that mf_product takes */
    {
        on_device<float> a(A, shift), b(B, shift), c(C, shift);
        on_device<uint16_t> a16(in_bf16(A)), b16(in_bf16(B));
        on_device<unsigned char> flags(live);
        struct mf_product p = epilogue;
        p.M = M, p.N = N, p.K = K, p.batch = batch;
        p.A = A_bf16 ? (const float *)a16.p : a.p, p.A_bf16 = A_bf16, p.lda = lda(), p.A_transposed = A_transposed,
        p.next_A = next_A();
        p.B = B_bf16 ? (const float *)b16.p : b.p, p.B_bf16 = B_bf16, p.ldb = ldb(), p.B_transposed = B_transposed,
        p.next_B = next_B();
        p.C = c.p, p.ldc = N + apart, p.next_C = next_C(), p.add = add;
        p.live = live.empty() ? nullptr : flags.p;
        cudaError_t rc = tile < 0 ? mf_product(&p, precision, nullptr) : mf_product_by(&p, precision, tile, nullptr);
        std::vector<float> out(C.size());
        if (rc != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
            ok(0, "a product runs");
        cudaMemcpy(out.data(), c.p, out.size() * sizeof(float), cudaMemcpyDefault);
        for (float x : out) {
            unsigned bits;
            memcpy(&bits, &x, sizeof bits);
            digest = (digest ^ bits) * 1099511628211ull;
        }
        return out;
    }

    /* The largest error, in units of what fp32 sums of that length may have. */
    double error(enum mf_precision precision, std::vector<float> &got)
    {
        double worst = 0.0;
        for (int of = 0; of < batch; of++)
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++) {
                    double sum = add ? c(C, of, m, n) : 0.0, size = fabs(sum);
                    for (int k = 0; k < K; k++)
                        if (live.empty() || live[(size_t)of * K + k]) {
                            double x = operand_of(precision, a(of, m, k)) * operand_of(precision, b(of, k, n));
                            sum += x, size += fabs(x);
                        }
                    double off = fabs(c(got, of, m, n) - sum) / (size * ldexp(2.0 + 0.5 * sqrt(K), -24) + 1e-30);
                    worst = off > worst || off != off ? off : worst;
                }
        return worst;
    }
};

static bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && !memcmp(a.data(), b.data(), a.size() * sizeof(float));
}

static void forms(enum mf_precision precision)
{
    static const int shapes[][3] = {{1, 1, 1}, {5, 3, 33}, {17, 33, 7}, {40, 68, 64}, {130, 261, 40}};
    double worst = 0.0;
    bool equal = true, apart = true;
    for (int form = 0; form < 3; form++)
        for (auto &s : shapes) {
            struct trial t = {};
            t.M = s[0], t.N = s[1], t.K = s[2];
            t.A_transposed = form & 1, t.B_transposed = form & 2, t.add = form == 1;
            t.draw();
            std::vector<float> got = t.run(precision, 0);
            double off = t.error(precision, got);
            worst = off > worst || off != off ? off : worst;
            for (int tile = 1; tile < MF_TILES; tile++)
                equal = equal && same(got, t.run(precision, tile));
            equal = equal && same(got, t.run(precision, -1));
            t.shift = 1;
            apart = apart && same(got, t.run(precision, -1));
        }
    ok(worst < 1.0, "%s: three forms, errors up to %.2f of what sums of their length may have", names[precision],
       worst);
    ok(equal, "%s: the same bits in tiles of every size", names[precision]);
    ok(apart, "%s: the same bits at addresses that are not aligned", names[precision]);
}

static void rows(enum mf_precision precision)
{
    static const int counts[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256};
    struct trial all = {};
    all.M = 256, all.N = 21, all.K = 44, all.B_transposed = true;
    all.draw();
    std::vector<float> want = all.run(precision, -1);
    bool equal = true;
    for (int M : counts)
        for (int tile = 0; tile < MF_TILES; tile++) {
            int first = 256 - M;
            struct trial t = all;
            t.M = M;
            t.A.assign(all.A.begin() + first * t.K, all.A.end());
            t.C.resize((size_t)M * t.N);
            std::vector<float> got = t.run(precision, tile);
            equal = equal && !memcmp(got.data(), want.data() + first * t.N, got.size() * sizeof(float));
        }
    ok(equal, "%s: a row's bits are the same among 1 to 256 rows, wherever it lies", names[precision]);
}

/* Indices that are left out, in each product of a batch others. */
static void live(enum mf_precision precision)
{
    double worst = 0.0;
    bool equal = true, nothing = true;
    for (int form = 0; form < 3; form++)
        for (int wide = 0; wide < 2; wide++) {
            struct trial t = {};
            t.M = wide ? 36 : 19, t.N = wide ? 72 : 35, t.K = 70, t.batch = 3, t.add = wide, t.apart = wide ? 4 : 3;
            t.A_transposed = form & 1, t.B_transposed = form & 2;
            t.draw();
            t.live.assign(3 * 70, 1);
            struct trial zeros = t;
            zeros.live.clear();
            for (int at = 0; at < 3 * 70; at++)
                if (drawn() < 0.3f || at / 70 == 1) {
                    t.live[at] = 0;
                    for (int m = 0; m < t.M; m++)
                        t.a(at / 70, m, at % 70) = NaN, zeros.a(at / 70, m, at % 70) = 0.0f;
                    for (int n = 0; n < t.N; n++)
                        t.b(at / 70, at % 70, n) = NaN, zeros.b(at / 70, at % 70, n) = 0.0f;
                }
            std::vector<float> got = t.run(precision, 0);
            double off = t.error(precision, got);
            worst = off > worst || off != off ? off : worst;
            equal = equal && same(got, zeros.run(precision, 1)) && same(got, t.run(precision, 1)) &&
                    same(got, t.run(precision, 2));
            for (int m = 0; m < t.M; m++)
                for (int n = 0; n < t.N; n++)
                    nothing = nothing && t.c(got, 1, m, n) == (wide ? t.c(t.C, 1, m, n) : 0.0f);
            for (size_t at = 0; at < got.size(); at++) /* between the rows */
                if ((int)(at % (t.N + t.apart)) >= t.N)
                    nothing = nothing && got[at] == t.C[at];
        }
    ok(worst < 1.0, "%s: batches with NaN where indices are left out, errors up to %.2f", names[precision], worst);
    ok(equal, "%s: what is left out changes no bit, as if it were 0", names[precision]);
    ok(nothing, "%s: a sum of nothing is 0, and nothing is written beside C", names[precision]);
}

/* The epilogue adds in a fixed order, so it can be foreseen to the last bit. */
static void epilogue(enum mf_precision precision)
{
    bool equal = true;
    for (int act = MF_ACT_NONE; act <= MF_ACT_GELU_ERF; act++)
        for (int N : {24, 35}) {
            struct trial t = {};
            enum { SAMPLES = 6, ROWS = 4, SPREAD = 2 };
            t.M = SAMPLES * ROWS, t.N = N, t.K = 20, t.B_transposed = true;
            t.draw();
            std::vector<float> sums = t.run(precision, -1);
            std::vector<float> b = drawn((size_t)N), r1 = drawn((size_t)(SPREAD * N)), r2 = drawn(sums.size()), y,
                               slope, before;
            if (act % 2)
                r1 = drawn((size_t)(SAMPLES * SPREAD * N));
            for (int i = 0; i < t.M; i++)
                for (int j = 0; j < N; j++) {
                    int from = (act % 2 ? i / ROWS * SPREAD : 0) + i % ROWS / (ROWS / SPREAD);
                    float d, x = sums[(size_t)(i * N + j)] + b[(size_t)j] + r1[(size_t)(from * N + j)] +
                                 r2[(size_t)(i * N + j)];
                    before.push_back(x);
                    y.push_back(mf_act_of((enum mf_act)act, x, &d));
                    slope.push_back(d);
                }
            on_device<float> on_b(b), on_r1(r1), on_r2(r2), on_slope(std::vector<float>(slope.size())),
                on_before(slope);
            struct mf_tensor x[3] = {};
            x[1].data = on_r1.p, x[1].rows = SPREAD, x[1].cols = N, x[1].shared = act % 2 == 0;
            x[2].data = on_r2.p, x[2].rows = ROWS, x[2].cols = N;
            struct mf_call call = {};
            call.y.rows = ROWS, call.y.cols = N, call.x = x, call.n_x = 3;
            t.epilogue.b = on_b.p, t.epilogue.sum = &call, t.epilogue.act = (enum mf_act)act;
            t.epilogue.slope = act ? on_slope.p : nullptr, t.epilogue.before = act > 1 ? on_before.p : nullptr;
            for (int tile = 0; tile < MF_TILES; tile++) {
                equal = equal && same(t.run(precision, tile), y);
                std::vector<float> got(slope.size());
                cudaMemcpy(got.data(), on_slope.p, got.size() * sizeof(float), cudaMemcpyDefault);
                equal = equal && (!act || same(got, slope));
                cudaMemcpy(got.data(), on_before.p, got.size() * sizeof(float), cudaMemcpyDefault);
                equal = equal && (act < 2 || same(got, before));
            }
        }
    ok(equal, "%s: bias, residuals, activations and their derivatives as foreseen", names[precision]);
}

/* Sums of columns beside a product, without those that are left out; in their order, so that all bits can be foreseen.
 */
static void sums(enum mf_precision precision)
{
    bool equal = true;
    for (int wide = 0; wide < 2; wide++)
        for (int tile = -1; tile < MF_TILES; tile++) {
            struct trial t = {};
            t.M = wide ? 260 : 19, t.N = wide ? 136 : 35, t.K = 70, t.batch = 3, t.A_transposed = true;
            t.draw();
            std::vector<float> with = drawn((size_t)(3 * (t.M + 5))), want = with, C = t.run(precision, tile);
            for (int of = 0; of < 3; of++)
                for (int m = 0; m < t.M; m++) {
                    float sum = 0.0f;
                    for (int k = 0; k < t.K; k++)
                        sum += k % 7 == of ? 0.0f : t.a(of, m, k);
                    want[(size_t)(of * (t.M + 5) + m)] += sum;
                }
            on_device<float> to(with);
            t.epilogue.sums = to.p, t.epilogue.next_sums = (size_t)t.M + 5;
            equal = equal && same(t.run(precision, tile), C);
            cudaMemcpy(to.p, with.data(), with.size() * sizeof(float), cudaMemcpyDefault);
            for (int at = 0; at < 3 * t.K; at++)
                t.live.push_back(at % t.K % 7 != at / t.K);
            t.run(precision, tile);
            std::vector<float> got(with.size());
            cudaMemcpy(got.data(), to.p, got.size() * sizeof(float), cudaMemcpyDefault);
            equal = equal && same(got, want);
        }
    ok(equal, "%s: sums of columns as foreseen, and no bit of the product depends on them", names[precision]);
}

/* Rows of zeros of either sign, beside rows with one other number, or NaN, wherever in them. */
static void found(enum mf_precision precision)
{
    bool equal = true;
    for (int wide = 0; wide < 2; wide++)
        for (int tile = -1; tile < MF_TILES; tile++) {
            struct trial t = {};
            t.M = wide ? 260 : 19, t.N = wide ? 264 : 35, t.K = wide ? 68 : 33, t.B_transposed = wide;
            t.draw();
            std::vector<unsigned char> want;
            for (int m = 0; m < t.M; m++) {
                for (int k = 0; k < t.K; k++)
                    t.a(0, m, k) = m % 2 ? 0.0f : -0.0f;
                want.push_back(m % 3 < 2);
                if (m % 3 < 2)
                    t.a(0, m, m * 7 % t.K) = m % 3 ? NaN : 1e-45f;
            }
            std::vector<float> C = t.run(precision, tile);
            on_device<unsigned char> to(std::vector<unsigned char>(want.size() + 1, 7));
            t.epilogue.found = to.p;
            equal = equal && same(t.run(precision, tile), C);
            want.push_back(7);
            std::vector<unsigned char> got(want.size());
            cudaMemcpy(got.data(), to.p, got.size(), cudaMemcpyDefault);
            equal = equal && got == want;
        }
    ok(equal, "%s: rows of zeros are found, and no bit of the product depends on it", names[precision]);
}

/* A product that goes onward. */
static void onward(enum mf_precision precision)
{
    bool equal = true;
    for (int act = MF_ACT_NONE; act <= MF_ACT_GELU_ERF; act++)
        for (int form = 0; form < 8; form++) {
            struct trial t = {};
            t.M = 21, t.N = form & 1 ? 36 : 35, t.K = 20, t.add = form & 2, t.B_transposed = form & 4;
            t.draw();
            std::vector<float> C = t.run(precision, -1), kept = drawn(C.size()), added = drawn(C.size()), set(C.size()),
                               sum;
            for (size_t i = 0; i < C.size(); i++) {
                set[i] = mf_act_back((enum mf_act)act, C[i], kept[i], kept[i]);
                sum.push_back(set[i] + added[i]);
            }
            on_device<float> on_kept(kept), on_set(added), on_added(added);
            t.epilogue.on = {2, (enum mf_act)act, on_kept.p, {{on_added.p, true}, {on_set.p, false}}};
            for (int tile = 0; tile < MF_TILES; tile++) {
                std::vector<float> got(C.size()), got_added(C.size());
                cudaMemcpy(on_added.p, added.data(), C.size() * sizeof(float), cudaMemcpyDefault);
                equal = equal && same(t.run(precision, tile), t.C);
                cudaMemcpy(got.data(), on_set.p, C.size() * sizeof(float), cudaMemcpyDefault);
                cudaMemcpy(got_added.data(), on_added.p, C.size() * sizeof(float), cudaMemcpyDefault);
                equal = equal && same(got, set) && same(got_added, sum);
            }
        }
    ok(equal, "%s: what goes onward as foreseen", names[precision]);
}

/* An operand stored as bf16 gives the bits that it gives as fp32, with NaN where indices are left out; a result is
 * rounded, and takes half the room. */
static void stored()
{
    static const int shapes[][3] = {{5, 8, 8}, {19, 72, 64}, {130, 264, 40}};
    bool forward = true, result = true, backward = true;
    for (auto &s : shapes)
        for (int tile = -1; tile < MF_TILES; tile++) {
            struct trial t = {}, dW = {};
            t.M = s[0], t.N = s[1], t.K = s[2], t.B_transposed = true;
            t.draw();
            t.A[0] = NaN, t.A[t.A.size() - 1] = 1e-40f;
            std::vector<float> want = t.run(MF_BF16, tile);
            t.A_bf16 = true;
            forward = forward && same(t.run(MF_BF16, tile), want);
            t.epilogue.C_bf16 = true;
            std::vector<float> got = t.run(MF_BF16, tile);
            size_t half = got.size() / 2;
            result = result && !memcmp(got.data(), in_bf16(want).data(), half * sizeof(float)) &&
                     !memcmp(&got[half], &t.C[half], (got.size() - half) * sizeof(float));
            dW.M = s[0], dW.N = s[1], dW.K = s[2] + 3, dW.batch = 2, dW.A_transposed = dW.add = true;
            dW.draw();
            for (int at = 0; at < 2 * dW.K; at++) {
                dW.live.push_back(at % 5 != 2);
                for (int n = 0; at % 5 == 2 && n < dW.N; n++)
                    dW.b(at / dW.K, at % dW.K, n) = NaN;
            }
            want = dW.run(MF_BF16, tile);
            dW.B_bf16 = true;
            backward = backward && same(dW.run(MF_BF16, tile), want);
        }
    ok(forward, "an operand stored as bf16, the same bits");
    ok(result, "a result stored as bf16");
    ok(backward, "for the gradient of a weight, the same bits");
}

/* The digest that this program prints where threads and blocks run in another order. */
static std::string digest_in(int order, const char *self)
{
    char text[64] = "";
    std::string command = "CUEMU_ORDER=" + std::to_string(order) + " '" + self + "' digest";
    FILE *f = popen(command.c_str(), "r");
    bool read = f && fgets(text, sizeof text, f);
    return f && pclose(f) == 0 && read ? text : "nothing";
}

int main(int argc, char **argv)
{
    bool prints = argc > 1;
    if (prints && !freopen("/dev/null", "w", stderr))
        return 1;
    for (enum mf_precision p : {MF_FP32, MF_TF32, MF_BF16}) {
        if (prints) { /* one product of each form, of several blocks */
            for (int form = 0; form < 3; form++)
                for (int tile = 0; tile < MF_TILES; tile++) {
                    struct trial t = {};
                    t.M = 70, t.N = 133, t.K = 70, t.A_transposed = form & 1, t.B_transposed = form & 2;
                    t.draw();
                    t.run(p, tile);
                }
            continue;
        }
        forms(p);
        rows(p);
        live(p);
        epilogue(p);
        sums(p);
        found(p);
        onward(p);
    }
    if (!prints)
        stored();
    if (prints) {
        printf("%llx\n", digest);
        return tap_failed;
    }
    std::string first = digest_in(0, argv[0]);
    bool equal = first != "nothing";
    for (int order = 1; order < 4; order++)
        equal = equal && digest_in(order, argv[0]) == first;
    ok(equal, "the same bits in whatever order threads and blocks run");
    return done();
}
