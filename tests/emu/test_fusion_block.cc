/* Gate, norm and modulate in one launch, forward and backward: all memory has the bits that the calls leave one by one,
 * and calls whose places are in each other's way are not fused. */
#include <cmath>
#include <cstdlib>

#include "cuda/program.h"
#include "drawn.h"

extern "C" {
#include "op/how.h"
}

enum { ROWS = 3, SAMPLES = 7, CALLS = 3 };

/* gate, norm and modulate. */
struct block : drawn_memory {
    int cols;
    enum mf_norm norm = MF_NORM_LAYER;
    bool affine = false, h_once = false, m_shared = false;
    int from = 0, calls = CALLS; /* the first call; how many */

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

    mf_tensor place(int rows, int width, bool shared)
    {
        mf_tensor t = {};
        t.rows = rows, t.cols = width, t.shared = shared;
        t.data = room((size_t)mf_tile_rows(&t, SAMPLES) * width, 1);
        return t;
    }

    /* aux_on_h, last_on_x: these results lie on the operands, the last one `by` floats behind x. */
    void lay_out(bool aux_on_h = false, bool last_on_x = false, int by = 0)
    {
        draw((size_t)SAMPLES * ROWS * (cols * 14 + 2) + 16);
        mf_tensor h = place(h_once ? 1 : ROWS, cols, false), in = place(ROWS, cols, false);
        room(16, 1);
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
            p.kernel.push_back(kernel_named(names[i]));
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
        cudaError_t rc = cudaSuccess;
        restart();
        for (int i = 0, next; i < calls && rc == cudaSuccess; i = next) {
            mf_run_of run = fused ? q->run[i] : mf_run_of{NULL, 1};
            next = i + run.calls;
            rc = run.by ? run.by->forward(&p.kernel[i], &q->call[i], run.calls) : p.kernel[i]->forward(&q->call[i]);
        }
        return left(rc);
    }

    /* `first` calls are fused at the start, and memory is the same. */
    bool good(int first)
    {
        std::vector<float> apart = left_by(false), together = left_by(true);
        return q->run[0].calls == first && same_bits(apart, together) && !same_bits(apart, start);
    }
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
struct block_back : drawn_memory {
    enum { SAMPLES = 4, LANES = 2 };
    int cols, rows = 3;
    enum mf_norm norm = MF_NORM_LAYER;
    enum m_form form = ONE;
    bool trains = false, adds = false; /* the norm's weights; to the gradients of the gate's operands */
    int from = 0, calls = CALLS;

    mf_tensor x[6] = {}, normed = {}, last = {};
    mf_norm_how how = {};
    int gate_from = 0, modulate_from = 0;
    const mf_kernel *kernel[CALLS];
    mf_kernel_call k[CALLS] = {};

    explicit block_back(int cols) : cols(cols)
    {
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
        size_t stride = (size_t)(rows + 1) * 4 * cols;
        draw((size_t)SAMPLES * rows * cols * 40 + 12 * stride + 8192);
        mf_tensor h = place(rows, cols, false), added = place(rows, cols, false), gated = place(rows, cols, false),
                  m = place(form == SHARED || form == SPANS ? rows : 1, 4 * cols, form == SHARED, stride);
        mf_tensor of_gate = form <= SHARED ? m : place(1, 4 * cols, form == GATE_SHARED, stride);
        normed = place(rows, cols, false), last = place(rows, cols, false);
        m.grad = form == GATE_ALONE ? NULL : m.grad;
        of_gate.add = of_gate.add || form == ONE;
        gated.add = true, h.add = adds, added.add = adds;
        float *weights = room(2 * cols), *lane = room(stride * LANES), *aux = room((size_t)(SAMPLES * rows * 2)),
              *work = room(4096);
        how.norm = norm, how.rows = 1, how.heads = 1, how.eps = 1e-3f;
        gate_from = 3 * cols, modulate_from = cols;
        x[0] = normed, x[1] = m, x[2] = gated, x[3] = h, x[4] = added, x[5] = of_gate;
        k[0].call.x = x, k[0].call.n_x = 2, k[0].call.y = last, k[0].call.how = &modulate_from;
        k[1].call.x = x + 2, k[1].call.n_x = 1, k[1].call.y = normed, k[1].call.how = &how, k[1].call.aux = aux;
        k[1].call.W = weights, k[1].call.b = weights + cols, k[1].call.ldw = cols, k[1].call.work = work;
        k[2].call.x = x + 3, k[2].call.n_x = 3, k[2].call.y = gated, k[2].call.how = &gate_from;
        const char *const names[] = {"modulate", "norm", "gate"};
        for (int i = 0; i < CALLS; i++) {
            kernel[i] = kernel_named(names[i]);
            k[i].n = SAMPLES, k[i].lanes = LANES, k[i].lane = lane, k[i].stride = stride;
            k[i].call.dW = trains ? 0 : -1, k[i].call.db = trains ? cols : -1;
        }
        for (int row = 0; row < SAMPLES * rows; row++)
            for (int j = 0; row % 5 == 2 && j < cols; j++) {
                for (const mf_tensor *t : {&last, &normed, &gated})
                    in(start, t->grad)[row * cols + j] = j % 2 ? 0.0f : -0.0f;
                for (const mf_tensor *t : {&added, &normed, &gated})
                    in(start, t->data)[row * cols + j] = NAN;
                in(start, aux)[2 * row + j % 2] = NAN;
            }
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
        const mf_fusion *fusion = fused ? by(&n) : NULL;
        restart();
        cudaError_t rc = fusion ? fusion->backward(kernel + from, k + from, n) : kernel[from]->backward(k + from);
        for (int i = from + n; i < from + calls && rc == cudaSuccess; i++)
            rc = kernel[i]->backward(&k[i]);
        std::vector<float> all = left(rc);
        /* What nobody reads: gradients that ended within, and scratch. */
        memset(in(all, k[1].call.work), 0, 4096 * sizeof(float));
        for (int i = 0; i < calls - 1; i++) {
            const mf_tensor *y = &k[from + i + 1].call.y;
            memset(in(all, y->grad), 0, (size_t)(SAMPLES * rows * cols) * sizeof(float));
        }
        return all;
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
                    numbers = numbers && std::isfinite(in(together, t->grad)[e]);
            }
        return numbers && takes() == taken && same_bits(apart, together) && !same_bits(apart, start);
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

/* MF_TEST_FEW: backward alone, of one width. */
int main()
{
    bool few = getenv("MF_TEST_FEW");
    if (!few) {
        shapes();
        hazards();
    }
    blocks_back(few ? std::vector<int>{32} : std::vector<int>{2, 5, 32, 130, 1500});
    hazards_back();
    return done();
}
