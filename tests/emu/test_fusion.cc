/* Runs of calls in one launch, or in fewer: all memory has the bits that the calls leave one by one, and calls whose
 * places are in each other's way are not fused. */
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../unit/tap.h"
#include "cuda/program.h"

extern "C" {
#include "op/how.h"
}

enum { ROWS = 3, SAMPLES = 7, CALLS = 3 };

static float drawn() /* in (-1, 1) */
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(int)state / 2147483648.0f;
}

/* gate, norm, modulate, and memory for them. */
struct block {
    int cols;
    enum mf_norm norm = MF_NORM_LAYER;
    bool affine = false, h_once = false, m_shared = false;
    int from = 0, calls = CALLS; /* the first call; how many */

    std::vector<float> start;
    float *memory = NULL;
    mf_tensor x[6] = {};
    mf_norm_how how = {};
    int gate_from = 0, modulate_from = 0;
    mf_listed listed[CALLS] = {};
    mf_listing l = {};
    mf_dev dev = {};
    mf_program p = {};
    mf_gpu_part *q = &p.part[0];

    explicit block(int cols) : cols(cols)
    {
    }
    block(const block &) = delete;
    ~block()
    {
        cudaFree(memory);
    }

    mf_tensor place(int rows, int width, bool shared)
    {
        mf_tensor t = {};
        t.rows = rows, t.cols = width, t.shared = shared;
        t.data = memory + taken;
        taken += (size_t)mf_tile_rows(&t, SAMPLES) * width;
        return t;
    }

    /* aux_on_h, last_on_x: these results lie on the operands, the last one `by` floats behind x. */
    void lay_out(bool aux_on_h = false, bool last_on_x = false, int by = 0)
    {
        size_t floats = (size_t)SAMPLES * ROWS * (cols * 14 + 2) + 16;
        start.resize(floats);
        for (float &f : start)
            f = drawn();
        cudaMalloc(&memory, floats * sizeof(float));
        mf_tensor h = place(h_once ? 1 : ROWS, cols, false), in = place(ROWS, cols, false);
        taken += 16;
        mf_tensor m = place(m_shared ? ROWS : 1, 4 * cols, m_shared), gated = place(ROWS, cols, false),
                  normed = place(ROWS, cols, false), last = place(ROWS, cols, false),
                  affines = place(1, 2 * cols, true), aux = place(ROWS, 2, false);
        last.data = last_on_x ? in.data + by : last.data;
        how.norm = norm, how.rows = 1, how.heads = 1, how.eps = 1e-3f;
        gate_from = 3 * cols, modulate_from = cols;
        x[0] = h, x[1] = in, x[2] = m, x[3] = gated, x[4] = normed, x[5] = m;
        mf_kernel_call k[CALLS] = {};
        k[0].call.x = x, k[0].call.n_x = 3, k[0].call.y = gated, k[0].call.how = &gate_from;
        k[1].call.x = x + 3, k[1].call.n_x = 1, k[1].call.y = normed, k[1].call.how = &how;
        k[1].call.aux = aux_on_h ? h.data : aux.data;
        k[1].call.W = affine ? affines.data : NULL, k[1].call.b = affine ? affines.data + cols : NULL;
        k[1].call.ldw = cols;
        k[2].call.x = x + 4, k[2].call.n_x = 2, k[2].call.y = last, k[2].call.how = &modulate_from;
        const char *const names[] = {"gate", "norm", "modulate"};
        for (int i = from; i < from + calls; i++) {
            for (int at = 0; mf_kernels[at]; at++)
                if (mf_kernels[at]->name == std::string(names[i]))
                    p.kernel.push_back(mf_kernels[at]);
            listed[i].aux_floats = i == 1 ? 2 * ROWS : 0;
            k[i].n = SAMPLES, k[i].lanes = 1;
            q->call.push_back(k[i]);
        }
        dev.fuses = true;
        l.n_calls = calls, l.call = listed + from;
        p.dev = &dev, p.l = &l;
        mf_program_fuse(&p, q, SAMPLES);
    }

    std::vector<float> left_by(bool fused)
    {
        std::vector<float> v(start.size());
        cudaMemcpy(memory, start.data(), start.size() * sizeof(float), cudaMemcpyDefault);
        for (int i = 0, next; i < calls; i = next) {
            mf_run_of run = fused ? q->run[i] : mf_run_of{NULL, 1};
            next = i + run.calls;
            cudaError_t rc =
                run.by ? run.by->forward(&p.kernel[i], &q->call[i], run.calls) : p.kernel[i]->forward(&q->call[i]);
            if (rc != cudaSuccess)
                printf("# %s\n", cudaGetErrorString(rc));
        }
        cudaDeviceSynchronize();
        cudaMemcpy(v.data(), memory, v.size() * sizeof(float), cudaMemcpyDefault);
        return v;
    }

    /* `first` calls are fused at the start, and memory is the same. */
    bool good(int first)
    {
        std::vector<float> apart = left_by(false), together = left_by(true);
        return q->run[0].calls == first && !memcmp(apart.data(), together.data(), apart.size() * sizeof(float)) &&
               memcmp(apart.data(), start.data(), apart.size() * sizeof(float));
    }

  private:
    size_t taken = 0;
};

static void shapes()
{
    for (int cols : {1, 5, 32, 130, 1024, 1500}) {
        bool same = true;
        for (int form = 0; form < 24; form++) {
            block b(cols);
            b.norm = (enum mf_norm)(form % 3), b.affine = form / 3 % 2;
            b.h_once = form / 6 % 2, b.m_shared = form / 12;
            b.lay_out();
            same = same && b.good(3);
        }
        ok(same, "gate, norm and modulate of %d columns", cols);
    }
    block gate(40), modulate(40);
    gate.calls = 2;
    gate.lay_out();
    ok(gate.good(2), "gate and norm");
    modulate.from = 1, modulate.calls = 2;
    modulate.lay_out();
    ok(modulate.good(2), "norm and modulate");
}

static void hazards()
{
    block on(40), behind(40), aux(40), other(40), groups(40);
    on.lay_out(false, true);
    ok(on.good(3), "a result on an operand with its rows: fused");
    behind.lay_out(false, true, 16);
    ok(behind.good(1) && behind.q->run[1].calls == 2,
       "a result on other rows of an operand: not fused with its reader");
    aux.lay_out(true);
    ok(aux.good(1) && aux.q->run[1].calls == 2, "what is kept for backward, on an operand: not fused with its reader");
    other.lay_out();
    other.x[3] = other.x[1];
    mf_program_fuse(&other.p, other.q, SAMPLES);
    ok(other.good(1), "a norm of something else: not fused");
    groups.lay_out();
    groups.how.heads = 2;
    mf_program_fuse(&groups.p, groups.q, SAMPLES);
    ok(groups.good(1), "a norm of groups: not fused");
    on.dev.fuses = false;
    mf_program_fuse(&on.p, on.q, SAMPLES);
    ok(on.good(1), "a device that does not fuse");
}

/* ---- backward through a block ---- */

/* Of modulations. ONE: a tensor for both; SPANS: each row of one serves more rows than each of the other. */
enum m_form { ONE, SHARED, GATE_ALONE, GATE_SHARED, FORMS, SPANS = FORMS };

/* The same calls in the order of backward. Some rows have no gradient, and NaN in all that forward has left there. */
struct block_back {
    enum { SAMPLES = 4, LANES = 2 };
    int cols, rows = 3;
    enum mf_norm norm = MF_NORM_LAYER;
    enum m_form form = ONE;
    bool trains = false, adds = false; /* the norm's weights; to the gradients of the gate's operands */
    int from = 0, calls = CALLS;

    std::vector<float> start;
    float *memory = NULL;
    size_t taken = 0;
    mf_tensor x[6] = {}, normed = {}, last = {};
    mf_norm_how how = {};
    int gate_from = 0, modulate_from = 0;
    const mf_kernel *kernel[CALLS];
    mf_kernel_call k[CALLS] = {};

    explicit block_back(int cols) : cols(cols)
    {
    }
    block_back(const block_back &) = delete;
    ~block_back()
    {
        cudaFree(memory);
    }

    float *room(size_t floats)
    {
        float *p = memory + taken;
        taken += (floats + 63) / 64 * 64;
        return p;
    }
    mf_tensor place(int rows, int width, bool shared, size_t stride = 0)
    {
        mf_tensor t = {};
        t.rows = rows, t.cols = width, t.shared = t.add = shared;
        size_t floats = (size_t)mf_tile_rows(&t, SAMPLES) * width;
        t.data = room(floats), t.grad = room(floats + stride);
        return t;
    }

    void lay_out()
    {
        size_t stride = (size_t)(rows + 1) * 4 * cols, floats = (size_t)SAMPLES * rows * cols * 40 + 12 * stride + 8192;
        start.resize(floats);
        for (float &f : start)
            f = drawn();
        cudaMalloc(&memory, floats * sizeof(float));
        mf_tensor h = place(rows, cols, false), in = place(rows, cols, false), gated = place(rows, cols, false),
                  m = place(form == SHARED || form == SPANS ? rows : 1, 4 * cols, form == SHARED, stride);
        mf_tensor of_gate = form <= SHARED ? m : place(1, 4 * cols, form == GATE_SHARED, stride);
        normed = place(rows, cols, false), last = place(rows, cols, false);
        m.grad = form == GATE_ALONE ? NULL : m.grad;
        of_gate.add = of_gate.add || form == ONE;
        gated.add = true, h.add = adds, in.add = adds;
        float *weights = room(2 * cols), *lane = room(stride * LANES), *aux = room((size_t)(SAMPLES * rows * 2)),
              *work = room(4096);
        how.norm = norm, how.rows = 1, how.heads = 1, how.eps = 1e-3f;
        gate_from = 3 * cols, modulate_from = cols;
        x[0] = normed, x[1] = m, x[2] = gated, x[3] = h, x[4] = in, x[5] = of_gate;
        k[0].call.x = x, k[0].call.n_x = 2, k[0].call.y = last, k[0].call.how = &modulate_from;
        k[1].call.x = x + 2, k[1].call.n_x = 1, k[1].call.y = normed, k[1].call.how = &how, k[1].call.aux = aux;
        k[1].call.W = weights, k[1].call.b = weights + cols, k[1].call.ldw = cols, k[1].call.work = work;
        k[2].call.x = x + 3, k[2].call.n_x = 3, k[2].call.y = gated, k[2].call.how = &gate_from;
        const char *const names[] = {"modulate", "norm", "gate"};
        for (int i = 0; i < CALLS; i++) {
            for (int at = 0; mf_kernels[at]; at++)
                if (mf_kernels[at]->name == std::string(names[i]))
                    kernel[i] = mf_kernels[at];
            k[i].n = SAMPLES, k[i].lanes = LANES, k[i].lane = lane, k[i].stride = stride;
            k[i].call.dW = trains ? 0 : -1, k[i].call.db = trains ? cols : -1;
        }
        for (int row = 0; row < SAMPLES * rows; row++)
            for (int j = 0; row % 5 == 2 && j < cols; j++) {
                for (const mf_tensor *t : {&last, &normed, &gated})
                    number(t->grad, row * cols + j) = j % 2 ? 0.0f : -0.0f;
                for (const mf_tensor *t : {&in, &normed, &gated})
                    number(t->data, row * cols + j) = NAN;
                number(aux, 2 * row + j % 2) = NAN;
            }
    }
    float &number(const float *of, int at)
    {
        return start[(size_t)(of - memory) + (size_t)at];
    }

    const mf_fusion *by(int *n)
    {
        for (int f = 0; mf_fusions[f]; f++)
            if (mf_fusions[f]->takes_back &&
                (*n = mf_fusions[f]->takes_back(kernel + from, k + from, calls, SAMPLES)) > 1)
                return mf_fusions[f];
        *n = 1;
        return NULL;
    }
    int takes()
    {
        int n;
        by(&n);
        return n;
    }

    std::vector<float> left_by(bool fused)
    {
        int n = 1;
        std::vector<float> left(start.size());
        const mf_fusion *fusion = fused ? by(&n) : NULL;
        cudaMemcpy(memory, start.data(), start.size() * sizeof(float), cudaMemcpyDefault);
        cudaError_t rc = fusion ? fusion->backward(kernel + from, k + from, n) : kernel[from]->backward(k + from);
        for (int i = from + n; i < from + calls && rc == cudaSuccess; i++)
            rc = kernel[i]->backward(&k[i]);
        if (rc != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
            ok(0, "backward runs");
        cudaMemcpy(left.data(), memory, left.size() * sizeof(float), cudaMemcpyDefault);
        /* What nobody reads: gradients that ended within, and scratch. */
        memset(&left[(size_t)(k[1].call.work - memory)], 0, 4096 * sizeof(float));
        for (int i = 0; i < calls - 1; i++) {
            const mf_tensor *y = &k[from + i + 1].call.y;
            memset(&left[(size_t)(y->grad - memory)], 0, (size_t)(SAMPLES * rows * cols) * sizeof(float));
        }
        return left;
    }

    /* Numbers of gradients are those of the calls one by one; none is NaN. */
    bool good(int taken)
    {
        std::vector<float> apart = left_by(false), together = left_by(true);
        bool numbers = true;
        for (int i = from; i < from + calls; i++)
            for (int j = 0; j < k[i].call.n_x; j++) {
                const mf_tensor *t = &k[i].call.x[j];
                size_t n = t->grad ? (size_t)mf_tile_rows(t, SAMPLES) * t->cols : 0;
                for (size_t e = 0; e < n; e++)
                    numbers = numbers && std::isfinite(together[(size_t)(t->grad - memory) + e]);
            }
        return numbers && takes() == taken && !memcmp(apart.data(), together.data(), apart.size() * sizeof(float)) &&
               memcmp(apart.data(), start.data(), apart.size() * sizeof(float));
    }
};

static void blocks_back(const std::vector<int> &widths)
{
    for (int cols : widths) {
        bool all = true, first = true, second = true;
        for (int of = 0; of < 2 * 3 * FORMS; of++) {
            block_back b(cols), modulate(cols), gate(cols);
            for (block_back *p : {&b, &modulate, &gate})
                p->norm = (enum mf_norm)(of % 3), p->form = (enum m_form)(of / 3 % FORMS), p->adds = of / 3 / FORMS,
                p->rows = of % 3 || cols > 130 ? 3 : 20;
            modulate.calls = 2;
            gate.from = 1, gate.calls = 2, gate.trains = true;
            b.lay_out(), modulate.lay_out(), gate.lay_out();
            all = all && b.good(3), first = first && modulate.good(2), second = second && gate.good(2);
        }
        ok(all, "backward through modulate, norm and gate of %d columns", cols);
        ok(first, "backward through modulate and norm of %d columns", cols);
        ok(second, "backward through a norm whose weights are trained, and gate, of %d columns", cols);
    }
    block_back frozen(40);
    frozen.lay_out();
    frozen.x[3].grad = frozen.x[5].grad = NULL;
    ok(frozen.good(3), "a gate of which x alone has a gradient");
}

static void hazards_back()
{
    block_back on(40), behind(40), aux(40), read(40), spread(40), trained(40), twice(40), other(40), spans(40);
    on.lay_out();
    on.x[4].grad = on.last.grad;
    ok(on.good(3), "a gradient on one that ends there: fused");
    behind.lay_out();
    behind.x[4].grad = behind.last.grad + 16;
    ok(behind.good(2), "a gradient on other rows of one that ends there: the gate alone");
    aux.lay_out();
    aux.x[3].grad = aux.k[1].call.aux;
    ok(aux.good(2), "a gradient on what forward kept: the gate alone");
    read.lay_out();
    read.x[5].grad = read.x[0].data;
    ok(read.takes() == 2, "the gradient of a modulation on what another is computed from: the gate alone");
    spread.lay_out();
    spread.x[3].rows = 1;
    ok(spread.good(2), "a gate whose first operand is spread: alone");
    trained.trains = true;
    trained.lay_out();
    ok(trained.good(1), "a norm whose weights are trained, and modulate: not fused");
    twice.lay_out();
    twice.x[0].add = true;
    ok(twice.takes() == 1, "a norm with another reader: not fused");
    other.lay_out();
    other.x[0].data = other.last.data;
    ok(other.takes() == 1, "modulate of something else: not fused");
    spans.form = SPANS;
    spans.lay_out();
    ok(spans.good(2), "modulations of other rows: the gate alone");
}

/* ---- backward through products ---- */

enum { LINKS = 5, LANES = 2, WIDTH = 8 * LANES };

/* v0 = x W + b, v1 = act(v0), v2 = act(v1 W + b), v3 = v2 W + b + v0, v4 = act(v3 W + b + s), s once a sample; in the
 * order of backward v4 is call 0. Some rows of v4 have no gradient, and x has NaN there. */
struct links {
    enum mf_act act;
    int cols;
    bool frozen = false; /* the weight of v4 */
    enum mf_precision precision = MF_FP32;

    std::vector<float> start;
    float *memory = NULL;
    size_t taken = 0;
    mf_tensor v[LINKS] = {}, in = {}, s = {};
    mf_tensor operands[LINKS][2] = {};
    mf_linear_how how[LINKS] = {};
    const mf_kernel *kernel[LINKS];
    mf_kernel_call k[LINKS] = {};

    links(int cols, enum mf_act act) : act(act), cols(cols)
    {
    }
    links(const links &) = delete;
    ~links()
    {
        cudaFree(memory);
    }

    float *room(size_t floats)
    {
        float *p = memory + taken;
        taken += (floats + 63) / 64 * 64;
        return p;
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
        size_t floats = (size_t)(WIDTH * ROWS * cols + 64) * 24 + stride * (LANES + 2) + 4096;
        start.resize(floats);
        for (float &f : start)
            f = drawn();
        cudaMalloc(&memory, floats * sizeof(float));
        in = place(ROWS), s = place(1);
        for (mf_tensor &t : v)
            t = place(ROWS);
        float *weights = room(stride), *lane = room(stride * LANES), *work = room(1024);
        for (int i = 0; i < LINKS; i++) {
            mf_kernel_call &c = k[LINKS - 1 - i];
            mf_tensor *x = operands[i];
            bool sum = i == 1;
            x[0] = i ? v[i - 1] : in, x[1] = i == 3 ? v[0] : s;
            x[0].add = i == 1;
            how[i].act = i % 2 == 0 && i ? act : sum ? act : MF_ACT_NONE;
            c.call.how = sum ? (const void *)&how[i].act : &how[i];
            c.call.x = x, c.call.n_x = i >= 3 ? 2 : 1, c.call.y = v[i],
            c.call.aux = room((size_t)(WIDTH * ROWS * cols));
            c.call.W = weights + i * (cols + 1) * cols, c.call.b = c.call.W + cols * cols, c.call.ldw = cols;
            c.call.dW = frozen && i == 4 ? -1 : i * (cols + 1) * cols, c.call.db = i * (cols + 1) * cols + cols * cols;
            c.call.work = work;
            c.n = WIDTH, c.lanes = LANES, c.lane = lane, c.stride = stride, c.precision = precision;
            for (int at = 0; mf_kernels[at]; at++)
                if (mf_kernels[at]->name == std::string(sum ? "sum" : "linear"))
                    kernel[LINKS - 1 - i] = mf_kernels[at];
        }
        auto at = [&](const float *p) { return &start[(size_t)(p - memory)]; };
        memset(at(lane), 0, stride * LANES * sizeof(float));
        for (int row = 0; row < WIDTH * ROWS; row++)
            for (int j = 0; row % 5 == 2 && j < cols; j++)
                at(v[4].grad)[row * cols + j] = 0.0f, at(in.data)[row * cols + j] = NAN,
                                           at(v[2].data)[row * cols + j] = NAN;
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
        std::vector<float> left(start.size());
        cudaMemcpy(memory, start.data(), start.size() * sizeof(float), cudaMemcpyDefault);
        cudaError_t rc = fused > 1 ? by()->backward(kernel, k, fused) : cudaSuccess;
        for (int i = fused > 1 ? fused : 0; i < LINKS && rc == cudaSuccess; i++)
            rc = kernel[i]->backward(&k[i]);
        if (rc != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
            ok(0, "backward runs");
        cudaMemcpy(left.data(), memory, left.size() * sizeof(float), cudaMemcpyDefault);
        /* What nobody reads: the gradient before the sum, and scratch. */
        memset(&left[(size_t)(v[1].grad - memory)], 0, (size_t)(WIDTH * ROWS * cols) * sizeof(float));
        memset(&left[(size_t)(k[0].call.work - memory)], 0, 1024 * sizeof(float));
        return left;
    }

    /* v0 and v1 in `launches`, forward. */
    bool good_forward(int launches)
    {
        const mf_kernel *order[] = {kernel[4], kernel[3]};
        mf_kernel_call calls[] = {k[4], k[3]};
        std::vector<float> left[2];
        int took = by()->takes(order, calls, 2, WIDTH);
        for (int fused = 0; fused < 2; fused++) {
            cudaMemcpy(memory, start.data(), start.size() * sizeof(float), cudaMemcpyDefault);
            cudaError_t rc = fused && took ? by()->forward(order, calls, 2) : order[0]->forward(&calls[0]);
            if (!(fused && took))
                rc = rc == cudaSuccess ? order[1]->forward(&calls[1]) : rc;
            left[fused].resize(start.size());
            if (rc != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
                ok(0, "forward runs");
            cudaMemcpy(left[fused].data(), memory, start.size() * sizeof(float), cudaMemcpyDefault);
        }
        return took == (launches == 1 ? 2 : 0) && !memcmp(left[0].data(), left[1].data(), start.size() * sizeof(float));
    }

    bool good(int taken)
    {
        std::vector<float> apart = left_by(0), together = left_by(taken);
        return takes() == taken && !memcmp(apart.data(), together.data(), apart.size() * sizeof(float)) &&
               memcmp(apart.data(), start.data(), apart.size() * sizeof(float));
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
    onto.k[3].call.y.data = onto.in.data;
    ok(onto.good_forward(2), "an activation on the operand of its product: not fused");
    operand.lay_out();
    operand.operands[3][1].shared = true;
    ok(operand.takes() < LINKS, "a residual that is spread has its own launch");
}

/* MF_TEST_FEW: backward through a block alone, of one width. */
int main()
{
    if (getenv("MF_TEST_FEW")) {
        blocks_back({32});
        hazards_back();
        return done();
    }
    shapes();
    hazards();
    blocks_back({2, 5, 32, 130, 1500});
    hazards_back();
    chains();
    return done();
}
