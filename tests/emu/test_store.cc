/* Which results are stored as bf16: those that products alone read. */
#include "cuda/program.h"
#include "drawn.h"

extern "C" {
#include "op/how.h"
}

enum { COLS = 24, SAMPLES = 8, CALLS = 4, ROOM = SAMPLES * COLS, IN = 0, READ = 1 };

/* v0 = act(in W), v1 = v0 W, v2 = v0 W, v3 = v2 W, each at a place of its own. Nothing is computed. */
struct network {
    std::vector<float> memory = std::vector<float>(ROOM * (CALLS + 2) + 4);
    mf_linear_how how[CALLS] = {};
    mf_listed listed[CALLS] = {};
    mf_listing l = {};
    mf_dev dev = {};
    mf_program p = {};
    mf_gpu_part *q = &p.part[0];

    float *place(int i) /* of call i; -1: the input */
    {
        float *first = memory.data();
        while ((uintptr_t)first % 16)
            first++;
        return first + (size_t)ROOM * (i + 1);
    }
    mf_tensor tensor(int i)
    {
        return {place(i), NULL, 1, COLS, 1, false, false};
    }

    network()
    {
        const int reads[CALLS] = {-1, 0, 0, 2};
        q->operands.resize(2 * CALLS);
        for (int i = 0; i < CALLS; i++) {
            mf_kernel_call k = {};
            how[i].act = i ? MF_ACT_NONE : MF_ACT_MISH;
            k.call.how = &how[i], k.call.y = tensor(i);
            k.call.x = &q->operands[2 * i], k.call.n_x = 1;
            k.call.x[0] = tensor(reads[i]);
            q->call.push_back(k);
            q->run.push_back({NULL, 1});
            p.kernel.push_back(kernel_named("linear"));
        }
        dev.precision = MF_BF16, dev.fuses = true;
        l.n_calls = CALLS, l.call = listed;
        p.dev = &dev, p.l = &l;
        q->tile = place(-1);
    }
    network(const network &) = delete;

    mf_call &call(int i)
    {
        return q->call[i].call;
    }
    /* Whether v0 is stored so; v2 is in all of these. */
    bool stored()
    {
        mf_program_store(&p, q, SAMPLES);
        int from = q->bf16[0] ? 0 : -1;
        return q->bf16[0] && !q->bf16[1] && q->bf16[2] && q->from[1] == from && q->from[2] == from && q->from[3] == 2;
    }
    bool nothing()
    {
        mf_program_store(&p, q, SAMPLES);
        return !q->bf16[0] && q->from[1] == -1;
    }
};

int main()
{
    network plain, fp32, apart, relu, tanh, sum, norm, residual, transposed, cols, shifted, heads, again, later, over,
        joined, only;
    ok(plain.stored(), "a result that two products read, and one that one does");
    fp32.dev.precision = MF_TF32, apart.dev.fuses = false;
    ok(fp32.nothing() && apart.nothing(), "not in another precision, nor where calls are not fused");
    relu.how[0].act = MF_ACT_RELU, tanh.how[0].act = MF_ACT_TANH;
    ok(relu.stored(), "where its sign is its derivative");
    ok(tanh.nothing(), "not where its derivative is computed from all of it");
    enum mf_act none = MF_ACT_NONE;
    sum.p.kernel[0] = kernel_named("sum"), sum.call(0).how = &none;
    ok(sum.stored(), "a sum");
    norm.p.kernel[0] = kernel_named("norm");
    ok(norm.nothing(), "not of an operation that stores fp32 alone");
    residual.call(3).n_x = 2, residual.call(3).x[1] = residual.tensor(0);
    ok(residual.nothing(), "not a residual");
    transposed.how[2].transposed = true;
    ok(transposed.nothing(), "not for a product with a transposed weight");
    cols.call(0).y.cols = 12, cols.call(0).y.rows = 2;
    ok(cols.nothing(), "not in rows that are not whole pieces");
    shifted.call(0).y.data++, shifted.call(1).x[0].data++, shifted.call(2).x[0].data++;
    ok(shifted.nothing(), "not where it is not aligned");
    heads.call(1).x[0].heads = 2;
    ok(heads.nothing(), "not head by head");
    again.p.kernel[3] = kernel_named("sum"), again.call(3).x[0] = again.tensor(0);
    ok(again.nothing(), "not where a sum reads it, too");
    later.p.kernel[3] = kernel_named("sum"), later.call(3).x[0] = later.tensor(0);
    later.call(2).y = later.tensor(0);
    mf_program_store(&later.p, later.q, SAMPLES);
    ok(later.q->bf16[0] && !later.q->bf16[2], "up to where its place has another result");
    over.call(0).y.data = over.place(-1), over.call(1).x[0].data = over.call(2).x[0].data = over.place(-1);
    ok(over.nothing(), "not on an operand of its call");
    joined.q->run[0] = {NULL, 2};
    ok(joined.nothing(), "not where it is read in the launch that computes it");
    only.listed[3].only = {MF_IN_TILE, (size_t)ROOM + 8};
    ok(only.nothing(), "not where it says which rows count");
    return done();
}
