/* Few samples in one launch: all memory has the bits that the calls leave one by one, also where a result lies on what
 * nobody reads any more. */
#include "cuda/few.h"
#include "drawn.h"

extern "C" {
#include "flow/ops.h"
#include "op/how.h"
}

enum { D = 28, K = 3, WIDTH = 72 };

/* K steps of a network of two products for n samples, then the log-probability of the chain. */
struct sampler : drawn_memory {
    int n;
    enum mf_precision precision;
    std::vector<const mf_kernel *> kernel;
    std::vector<mf_kernel_call> k;
    std::vector<std::vector<mf_tensor>> operands;
    mf_linear_how how[3] = {};
    enum mf_act act = MF_ACT_SILU;
    int number[K + 1] = {0, 1, 2, 3};
    float limit = 0.9f;
    mf_flow_noise_how noise = {0.8f, 0.95f};
    mf_reduce_how reduce = {MF_REDUCE_ACTION, D / 4, 3, 1, 0.5f};

    sampler(int n, enum mf_precision precision) : n(n), precision(precision)
    {
        draw(1 << 16);
        operands.reserve(64);
        record();
    }

    mf_tensor place(int rows, int cols, bool shared = false)
    {
        mf_tensor t = {};
        t.rows = rows, t.cols = cols, t.shared = shared, t.heads = 1;
        t.data = room((size_t)mf_tile_rows(&t, n) * cols, 16);
        return t;
    }

    void call(const char *name, const void *attributes, const mf_tensor &y, const std::vector<mf_tensor> &x,
              const float *W = NULL, float *aux = NULL)
    {
        mf_kernel_call c = {};
        kernel.push_back(kernel_named(name));
        operands.push_back(x);
        c.call.how = attributes, c.call.y = y, c.call.x = operands.back().data(), c.call.n_x = (int)x.size();
        c.call.W = W, c.call.b = W ? W + WIDTH * WIDTH : NULL, c.call.ldw = x[0].cols, c.call.aux = aux;
        c.call.dW = c.call.db = -1, c.n = n, c.lanes = 1, c.precision = precision;
        k.push_back(c);
    }

    void record()
    {
        float *W[3];
        for (float *&w : W)
            w = place(1, (WIDTH + 1) * WIDTH, true).data;
        mf_tensor x[K + 1], mean[K], coefs = place(K, 3), draws = place(K, D), time = place(K, WIDTH, true);
        mf_tensor h = place(1, WIDTH), a = place(1, WIDTH), v = place(1, D), coef = place(1, 3), eps = place(1, D),
                  std = place(1, D), bounds = place(1, 2, true), slope = place(1, WIDTH);
        for (int i = 0; i < n * K * 3; i++) /* standard deviations among them */
            in(start, coefs.data)[i] = 0.6f + 0.5f * drawn();
        how[1].act = MF_ACT_RELU;
        x[0] = place(1, D);
        for (int i = 0; i < K; i++) {
            x[i + 1] = place(1, D), mean[i] = place(1, D);
            mf_tensor t = time;
            t.rows = 1, t.data += i * WIDTH;
            call("rows", &number[i], coef, {coefs});
            call("linear", &how[0], h, {x[i], t}, W[0]);
            call("sum", &act, a, {h}, NULL, slope.data);
            call("linear", &how[1], h, {a, h}, W[1]); /* the same numbers once more: a residual in its place */
            call("linear", &how[2], v, {h}, W[2]);
            call("flow_mean", &limit, mean[i], {x[i], v, coef});
            call("rows", &number[i], eps, {draws});
            call("noise_std", NULL, std, {v, bounds});
            call("flow_noise", &noise, x[i + 1],
                 i ? std::vector<mf_tensor>{mean[i], eps, coef, std} : std::vector<mf_tensor>{mean[i], eps, coef});
        }
        mf_tensor all = place(K + 1, D), means = place(K, D), next = place(K, D), p = place(K, D), sum = place(1, 3),
                  some = place(1, 5), both = place(1, 8);
        call("stack", NULL, all, {x[0], x[1], x[2], x[3]});
        call("stack", NULL, means, {mean[0], mean[1], mean[2]});
        call("rows", &number[0], next, {all});
        call("flow_logprob", NULL, p, {next, means, coefs});
        call("reduce", &reduce, sum, {p, x[0]});
        call("cols", &number[2], some, {x[1]});
        call("concat", NULL, both, {some, sum});
    }

    std::vector<float> left_by(bool one)
    {
        cudaError_t rc = cudaSuccess;
        mf_few few;
        restart();
        for (size_t i = 0; i < k.size() && rc == cudaSuccess; i++)
            if (!one)
                rc = kernel[i]->forward(&k[i]);
            else if (!few.add(kernel[i], &k[i]))
                ok(0, "%s has a form for few samples", kernel[i]->name);
        return left(one ? few.run(precision, NULL) : rc);
    }
};

int main()
{
    for (enum mf_precision precision : {MF_FP32, MF_TF32, MF_BF16})
        for (int n : {1, 2, 5, (int)MF_FEW}) {
            sampler s(n, precision);
            std::vector<float> apart = s.left_by(false), together = s.left_by(true);
            ok(same_bits(apart, together) && !same_bits(apart, s.start),
               "%d samples, precision %d: the bits of the calls one by one", n, precision);
        }
    sampler s(3, MF_FP32);
    mf_few few;
    mf_kernel_call wide = s.k[1];
    s.operands[1][0].cols = 1 << 12;
    ok(!few.add(s.kernel[1], &wide), "a product with many weights has no form here");
    s.operands[1][0].cols = D;
    ok(!few.add(kernel_named("attention"), &s.k[1]), "nor has an attention");
    return done();
}
