/* fusion_block.cu - what lies between two products of a transformer's block: gate and norm, norm and modulate, or all
 * three. A row goes from one to the next in shared memory.
 */
#include "cuda/block.h"
#include "cuda/fusion.h"

extern const struct mf_kernel mf_kernel_gate, mf_kernel_norm, mf_kernel_modulate;

enum { AHEAD = 4, COLS = 8192 /* there is room for */ };

struct joined {
    struct mf_gating gate;
    struct mf_norm_call norm;
    struct mf_modulation modulate;
};

/* Each thread has the same columns in all three. */
template <bool GATES, bool MODULATES>
__global__ void __launch_bounds__(MF_BLOCK, 4) block_forward(const struct joined a)
{
    struct mf_norm_member m = mf_norm_member_of(a.norm);
    int cols = a.norm.cols, wide = a.norm.wide, row = m.unit;
    float *held = mf_shared<float>() + MF_BLOCK / 32 + threadIdx.x / m.team * cols;
    size_t at = (size_t)row * cols;
    const float *gate = NULL, *x = NULL, *h = a.norm.x.data + at, *shift = NULL;
    if (GATES) {
        gate = a.gate.m.data + (size_t)mf_spread_row(a.gate.m_row, row) * a.gate.m.cols + a.gate.from;
        x = a.gate.x.data + at;
        h = a.gate.h.data + (size_t)mf_spread_row(a.gate.h_row, row) * cols;
    }
    if (MODULATES)
        shift = a.modulate.m.data + (size_t)mf_spread_row(a.modulate.spread, row) * a.modulate.m.cols + a.modulate.from;
    for (int first = m.col; first < cols; first += AHEAD * wide) {
        float of_h[AHEAD], of_x[AHEAD], by[AHEAD];
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
            int j = first + v * wide;
            if (j < cols) {
                of_h[v] = h[j];
                if (GATES)
                    of_x[v] = x[j], by[v] = gate[j];
            }
        }
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
            int j = first + v * wide;
            if (j < cols) {
                float y = GATES ? mf_gated(of_h[v], by[v], of_x[v]) : of_h[v];
                held[j] = y;
                if (GATES && m.real)
                    a.gate.y.data[at + j] = y;
            }
        }
    }
    mf_norm_forward(
        a.norm, m, [=](int, int j) { return held[j]; },
        [=](int, int j, float y) {
            a.norm.y.data[at + j] = y;
            if (MODULATES)
                a.modulate.y.data[at + j] = mf_modulated(y, __ldg(shift + cols + j), __ldg(shift + j));
        });
}

/* The first operand of `next` is the result of k, row by row. */
static bool follows(const struct mf_call *next, const struct mf_call *k)
{
    const struct mf_tensor *x = &next->x[0], *y = &k->y;
    return x->data == y->data && mf_same_rows(x, y) && mf_same_rows(x, &next->y) && x->cols == y->cols &&
           next->y.cols == y->cols && y->heads <= 1 && next->y.heads <= 1;
}

static bool by_rows(const struct mf_call *norm)
{
    const struct mf_norm_how *how = (const struct mf_norm_how *)norm->how;
    return how->heads == 1 && how->rows == 1 && how->from == 0 && norm->x[0].cols == norm->y.cols &&
           norm->x[0].heads <= 1 && norm->y.heads <= 1 && norm->y.cols <= COLS;
}

static int takes(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int)
{
    int norm = n > 0 && kernel[0] == &mf_kernel_gate;
    if (norm >= n || kernel[norm] != &mf_kernel_norm || !by_rows(&k[norm].call) ||
        (norm && !follows(&k[1].call, &k[0].call)))
        return 0;
    int next = norm + 1;
    bool modulates = next < n && kernel[next] == &mf_kernel_modulate && follows(&k[next].call, &k[norm].call);
    return next + modulates;
}

static cudaError_t forward(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n)
{
    bool gates = kernel[0] == &mf_kernel_gate, modulates = kernel[n - 1] == &mf_kernel_modulate;
    struct joined a = {};
    a.norm = mf_norm_of(&k[gates]);
    if (gates)
        a.gate = mf_gating_of(&k[0]);
    if (modulates)
        a.modulate = mf_modulation_of(&k[n - 1]);
    int teams = MF_BLOCK / (a.norm.wide * a.norm.tall);
    size_t room = (MF_BLOCK / 32 + (size_t)teams * a.norm.cols) * sizeof(float);
    void (*form)(struct joined) = !modulates ? block_forward<true, false>
                                  : gates    ? block_forward<true, true>
                                             : block_forward<false, true>;
    return mf_launch(k->stream, dim3((a.norm.units + teams - 1) / teams), dim3(MF_BLOCK), room, form, a);
}

extern const struct mf_fusion mf_fusion_block = {takes, forward, NULL, NULL};
