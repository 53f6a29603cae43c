/* Products that pass gradients on, and apply the activation behind them: all memory has the bits that the calls leave
 * one by one, and calls whose places are in each other's way are not fused. */
#include <cmath>

#include "cuda/program.h"
#include "drawn.h"

extern "C" {
#include "op/how.h"
}

enum { ROWS = 3, LINKS = 5, LANES = 2, WIDTH = 8 * LANES };

/* v0 = x W + b, v1 = act(v0), v2 = act(v1 W + b), v3 = v2 W + b + v0, v4 = act(v3 W + b + s), s once a sample; in the
 * order of backward v4 is call 0. Some rows of v4 have no gradient, and x has NaN there. */
struct links : drawn_memory {
    enum mf_act act;
    int cols;
    bool frozen = false; /* the weight of v4 */
    enum mf_precision precision = MF_FP32;

    mf_tensor v[LINKS] = {}, x = {}, s = {};
    mf_tensor operands[LINKS][2] = {};
    mf_linear_how how[LINKS] = {};
    const mf_kernel *kernel[LINKS];
    mf_kernel_call k[LINKS] = {};

    links(int cols, enum mf_act act) : act(act), cols(cols)
    {
    }

    mf_tensor place(int rows)
    {
        mf_tensor t = {};
        t.rows = rows, t.cols = cols;
        t.data = room((size_t)(WIDTH * rows * cols)), t.grad = room((size_t)(WIDTH * rows * cols));
        return t;
    }

    void lay_out()
    {
        size_t stride = (size_t)(LINKS * (cols + 1) * cols + 63) / 64 * 64;
        draw((size_t)(WIDTH * ROWS * cols + 64) * 24 + stride * (LANES + 2) + 4096);
        x = place(ROWS), s = place(1);
        for (mf_tensor &t : v)
            t = place(ROWS);
        float *weights = room(stride), *lane = room(stride * LANES), *work = room(1024);
        for (int i = 0; i < LINKS; i++) {
            mf_kernel_call &c = k[LINKS - 1 - i];
            mf_tensor *of = operands[i];
            bool sum = i == 1;
            of[0] = i ? v[i - 1] : x, of[1] = i == 3 ? v[0] : s;
            of[0].add = i == 1;
            how[i].act = i % 2 == 0 && i ? act : sum ? act : MF_ACT_NONE;
            c.call.how = sum ? (const void *)&how[i].act : &how[i];
            c.call.x = of, c.call.n_x = i >= 3 ? 2 : 1, c.call.y = v[i],
            c.call.aux = room((size_t)(WIDTH * ROWS * cols));
            c.call.W = weights + i * (cols + 1) * cols, c.call.b = c.call.W + cols * cols, c.call.ldw = cols;
            c.call.dW = frozen && i == 4 ? -1 : i * (cols + 1) * cols, c.call.db = i * (cols + 1) * cols + cols * cols;
            c.call.work = work;
            c.n = WIDTH, c.lanes = LANES, c.lane = lane, c.stride = stride, c.precision = precision;
            kernel[LINKS - 1 - i] = kernel_named(sum ? "sum" : "linear");
        }
        memset(in(start, lane), 0, stride * LANES * sizeof(float));
        for (int row = 0; row < WIDTH * ROWS; row++)
            for (int j = 0; row % 5 == 2 && j < cols; j++)
                in(start, v[4].grad)[row * cols + j] = 0.0f, in(start, x.data)[row * cols + j] = NAN,
                                                  in(start, v[2].data)[row * cols + j] = NAN;
    }

    const mf_fusion *by()
    {
        for (int f = 0; mf_fusions[f]; f++)
            if (mf_fusions[f]->takes_back && mf_fusions[f]->takes_back(kernel, k, LINKS, WIDTH) > 1)
                return mf_fusions[f];
        return NULL;
    }
    int takes()
    {
        return by() ? by()->takes_back(kernel, k, LINKS, WIDTH) : 1;
    }

    std::vector<float> left_by(int fused)
    {
        restart();
        cudaError_t rc = fused > 1 ? by()->backward(kernel, k, fused) : cudaSuccess;
        for (int i = fused > 1 ? fused : 0; i < LINKS && rc == cudaSuccess; i++)
            rc = kernel[i]->backward(&k[i]);
        std::vector<float> all = left(rc);
        /* What nobody reads: the gradient before the sum, and scratch. */
        memset(in(all, v[1].grad), 0, (size_t)(WIDTH * ROWS * cols) * sizeof(float));
        memset(in(all, k[0].call.work), 0, 1024 * sizeof(float));
        return all;
    }

    /* v0 and v1 in `launches`, forward. */
    bool good_forward(int launches)
    {
        const mf_kernel *order[] = {kernel[4], kernel[3]};
        mf_kernel_call calls[] = {k[4], k[3]};
        int took = by()->takes(order, calls, 2, WIDTH);
        restart();
        cudaError_t rc = order[0]->forward(&calls[0]);
        std::vector<float> apart = left(rc == cudaSuccess ? order[1]->forward(&calls[1]) : rc);
        restart();
        return took == (launches == 1 ? 2 : 0) && (!took || same_bits(apart, left(by()->forward(order, calls, 2))));
    }

    bool good(int taken)
    {
        std::vector<float> apart = left_by(0), together = left_by(taken);
        return takes() == taken && same_bits(apart, together) && !same_bits(apart, start);
    }
};

static void chains()
{
    for (enum mf_precision precision : {MF_FP32, MF_TF32, MF_BF16}) {
        bool same = true;
        for (int cols : {1, 20, 37, 68})
            for (int act = MF_ACT_NONE; act <= MF_ACT_GELU_ERF; act++) {
                links l(cols, (enum mf_act)act);
                l.precision = precision;
                l.lay_out();
                same = same && l.good(LINKS) && l.good_forward(1);
            }
        ok(same, "backward through four products and a sum, forward a product and its activation, precision %d",
           precision);
    }
    links frozen(20, MF_ACT_MISH), added(20, MF_ACT_RELU), residual(20, MF_ACT_MISH), other(20, MF_ACT_RELU),
        operand(20, MF_ACT_RELU), onto(20, MF_ACT_RELU);
    frozen.frozen = true;
    frozen.lay_out();
    ok(frozen.good(LINKS), "the last weight is frozen");
    added.lay_out();
    added.operands[3][1].add = true;
    ok(added.good(LINKS - 1), "a gradient that had another part before: its product alone");
    residual.lay_out();
    residual.operands[3][1].grad = residual.v[4].grad;
    residual.operands[1][0].grad = residual.v[0].grad = residual.v[4].grad;
    residual.k[4].call.y.grad = residual.v[4].grad;
    ok(residual.good(1), "the gradient of a residual where a product still reads its own: not fused with that");
    other.lay_out();
    other.operands[4][0].grad = other.s.data;
    ok(other.good(1), "a product of something else: not fused");
    onto.lay_out();
    onto.k[3].call.y.data = onto.x.data;
    ok(onto.good_forward(2), "an activation on the operand of its product: not fused");
    operand.lay_out();
    operand.operands[3][1].shared = true;
    ok(operand.takes() < LINKS, "a residual that is spread has its own launch");
}

int main()
{
    chains();
    return done();
}
