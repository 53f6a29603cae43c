/* Runs of calls in one launch: all memory has the bits that the calls leave one by one, and calls whose places are in
 * each other's way are not fused. */
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

int main()
{
    shapes();
    hazards();
    return done();
}
