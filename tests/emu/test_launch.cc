/* What most kernels are made of: divisions, elements, and sums over rows that padding does not change. */
#include <algorithm>
#include <climits>
#include <cmath>
#include <vector>

#include "../unit/tap.h"
#include "cuda/launch.h"

static unsigned state = 1;

static int drawn()
{
    state = state * 1664525u + 1013904223u;
    return (int)(state >> 1);
}

/* Near the multiples of a divisor, at both ends, and between. */
static void divisions()
{
    bool good = true;
    for (int by :
         {1, 2, 3, 5, 7, 10, 31, 32, 33, 127, 1000, 65535, 65537, 1 << 30, (1 << 30) + 1, INT_MAX - 1, INT_MAX}) {
        struct mf_div d = mf_div_by(by);
        for (int i = 0; i < 20000; i++) {
            long x = i < 1000 ? i : i < 2000 ? INT_MAX - i % 1000 : drawn();
            x = i % 2 ? x : x / by * by - i % 4 / 2;
            int at = (int)std::min<long>(std::max<long>(x, 0), INT_MAX);
            good = good && mf_quotient(d, at) == at / by && mf_remainder(d, at) == at % by;
        }
    }
    ok(good, "quotients and remainders of 31 bits");
}

static struct mf_tensor shape(int rows, int cols, bool shared, bool add)
{
    struct mf_tensor t = {};
    t.rows = rows, t.cols = cols, t.shared = shared, t.add = add;
    return t;
}

static void spreads()
{
    bool good = true;
    for (int rows : {1, 2, 3, 6, 12})
        for (bool shared : {false, true}) {
            struct mf_tensor y = shape(12, 1, false, false), x = shape(rows, 1, shared, false);
            struct mf_spreading s = mf_spread_of(&x, &y);
            for (int i = 0; i < 100; i++)
                good = good && mf_spread_row(s, i) == mf_row_of(&x, &y, i);
        }
    ok(good, "the rows that spread operands are read from");
}

static void cells()
{
    bool good = true;
    for (int rows : {1, 7, 300})
        for (int cols : {1, 5, 256, 1000}) {
            int *seen;
            std::vector<int> got((size_t)rows * cols), want(got.size());
            cudaMalloc(&seen, got.size() * sizeof(int));
            cudaMemsetAsync(seen, 0, got.size() * sizeof(int), NULL);
            mf_cells(NULL, rows, cols, [=] __device__(int i, int j) { seen[i * cols + j] += 1 + i * 1000 + j; });
            cudaMemcpy(got.data(), seen, got.size() * sizeof(int), cudaMemcpyDefault);
            for (size_t at = 0; at < want.size(); at++)
                want[at] = 1 + (int)at / cols * 1000 + (int)at % cols;
            good = good && got == want;
            cudaFree(seen);
        }
    ok(good, "every element once");
}

/* An operand (rows, cols) of a y of rows*span rows, in lanes of 5 samples and some padding. */
struct folding {
    int rows, span, cols, lanes, padding;
    bool shared, add;
    enum { SAMPLES = 5 };

    int samples() const
    {
        return SAMPLES + padding;
    }
    size_t stride() const
    {
        return (size_t)rows * cols + 3;
    }
    /* Of y; zeros of either sign in the padding. */
    std::vector<float> terms() const
    {
        int of_sample = rows * span * cols;
        std::vector<float> g((size_t)lanes * samples() * of_sample);
        state = 5;
        for (size_t i = 0; i < g.size(); i++)
            g[i] = (int)i / of_sample % samples() < SAMPLES ? (float)(drawn() % 2001 - 1000) / 777.0f
                   : i % 2                                  ? 0.0f
                                                            : -0.0f;
        return g;
    }
    /* The sums of all targets, which were 0.25 before. */
    std::vector<float> run(const std::vector<float> &terms) const
    {
        size_t n = shared ? stride() * lanes : (size_t)lanes * samples() * rows * cols;
        std::vector<float> sums(n, 0.25f);
        struct mf_kernel_call k = {};
        struct mf_tensor x = shape(rows, cols, shared, add);
        float *g, *to;
        int ld = cols;
        cudaMalloc(&g, terms.size() * sizeof(float));
        cudaMalloc(&to, n * sizeof(float));
        cudaMemcpy(g, terms.data(), terms.size() * sizeof(float), cudaMemcpyDefault);
        cudaMemcpy(to, sums.data(), n * sizeof(float), cudaMemcpyDefault);
        k.call.y = shape(rows * span, cols, false, false);
        k.n = lanes * samples(), k.lanes = lanes, k.stride = stride();
        mf_fold(&k, &x, to, ld, cols, [=] __device__(int i, int j) { return g[(size_t)i * ld + j]; });
        cudaMemcpy(sums.data(), to, n * sizeof(float), cudaMemcpyDefault);
        cudaFree(g);
        cudaFree(to);
        return sums;
    }
    /* Its distance from sums in double; infinite where it wrote between the lanes. */
    double error(const std::vector<float> &terms, const std::vector<float> &sums) const
    {
        struct mf_tensor y = shape(rows * span, cols, false, false), x = shape(rows, cols, shared, add);
        std::vector<double> want(sums.size(), add ? 0.25 : 0.0);
        double worst = 0.0;
        for (int i = 0; i < lanes * samples() * rows * span; i++)
            for (int j = 0; j < cols; j++) {
                int lane = i / (rows * span) / samples();
                want[(shared ? lane * stride() : 0) + (size_t)mf_row_of(&x, &y, i) * cols + j] +=
                    (double)terms[(size_t)i * cols + j];
            }
        for (size_t i = 0; i < sums.size(); i++) {
            bool between = shared && i % stride() >= (size_t)rows * cols;
            worst = std::max(worst, between ? (sums[i] == 0.25f ? 0.0 : INFINITY) : fabs((double)sums[i] - want[i]));
        }
        return worst;
    }
};

static void folds(bool shared)
{
    double worst = 0.0;
    bool same = true;
    for (int rows : {1, 3})
        for (int span : {1, 3, 40})
            for (int cols : {1, 3, 17, 300})
                for (int lanes : {1, 2})
                    for (bool add : {false, true}) {
                        folding f = {rows, span, cols, lanes, 0, shared, add}, padded = f;
                        padded.padding = 3;
                        std::vector<float> terms = f.terms(), more = padded.terms();
                        std::vector<float> sums = f.run(terms), of_more = padded.run(more);
                        worst = std::max({worst, f.error(terms, sums), padded.error(more, of_more)});
                        same = same && (!shared || sums == of_more);
                    }
    ok(worst < 1e-4, "sums over rows of %s operands", shared ? "shared" : "spread");
    if (shared)
        ok(same, "the same bits with padding");
}

int main()
{
    divisions();
    spreads();
    cells();
    folds(true);
    folds(false);
    return done();
}
