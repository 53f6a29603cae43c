/* fuse.cu - which calls that follow one another a fusion takes.
 *
 * The places of values that are no longer needed are used again. By itself each call is safe from that; but a fusion's
 * threads write the last result while others have yet to read the first operand.
 */
#include "cuda/program.h"

struct mf_extent mf_extent_of(const float *at, const struct mf_tensor *t, int n)
{
    return {at, (size_t)mf_tile_rows(t, n) * t->cols, t};
}

bool mf_apart(const struct mf_extent &a, const struct mf_extent &b)
{
    return !a.at || !b.at || a.at + a.floats <= b.at || b.at + b.floats <= a.at;
}

bool mf_same_place(const struct mf_extent &a, const struct mf_extent &b)
{
    return a.at == b.at && a.t && b.t && mf_same_rows(a.t, b.t) && a.t->cols == b.t->cols && a.t->heads == b.t->heads;
}

/* No call finds an operand, and no reader a result, overwritten by calls beside it. */
static bool keep_apart(const struct mf_listed *l, const struct mf_kernel_call *k, int calls, int samples)
{
    std::vector<mf_extent> results, operands;
    for (int i = 0; i < calls; i++) {
        const struct mf_call *c = &k[i].call;
        results.push_back(mf_extent_of(c->y.data, &c->y, samples));
        results.push_back({c->aux, l[i].aux_floats * samples, NULL});
        for (int j = 0; j < c->n_x; j++)
            operands.push_back(mf_extent_of(c->x[j].data, &c->x[j], samples));
    }
    bool good = true;
    for (size_t i = 0; i < results.size(); i++) {
        for (size_t j = 0; j < i; j++)
            good = good && mf_apart(results[i], results[j]);
        for (const mf_extent &x : operands)
            good = good && (mf_apart(results[i], x) || mf_same_place(results[i], x));
    }
    return good;
}

static struct mf_run_of run_from(const mf_program *p, const mf_gpu_part *q, int i, int samples)
{
    int n = 0;
    while (n < MF_FUSED && i + n < p->l->n_calls && !p->l->call[i + n].shared)
        n++;
    for (int f = 0; p->dev->fuses && mf_fusions[f]; f++) {
        if (!mf_fusions[f]->takes)
            continue;
        int calls = mf_fusions[f]->takes(&p->kernel[i], &q->call[i], n, samples);
        if (calls > 1 && keep_apart(&p->l->call[i], &q->call[i], calls, samples))
            return {mf_fusions[f], calls};
    }
    return {NULL, 1};
}

/* The calls that run backward, shared or not. */
static std::vector<mf_back_run> backward_runs(const mf_program *p, const mf_gpu_part *q, bool shared, int samples)
{
    std::vector<const struct mf_kernel *> kernel;
    std::vector<mf_kernel_call> k;
    std::vector<int> number;
    for (int i = p->l->n_calls - 1; i >= 0; i--)
        if (p->l->call[i].back && p->l->call[i].shared == shared) {
            number.push_back(i);
            kernel.push_back(p->kernel[i]);
            k.push_back(q->call[i]);
        }
    std::vector<mf_back_run> runs;
    int all = (int)number.size();
    for (int i = 0, n; i < all; i += n) {
        const struct mf_fusion *by = NULL;
        n = 0;
        for (int f = 0; p->dev->fuses && n < 2 && mf_fusions[f]; f++)
            if (mf_fusions[f]->takes_back) {
                by = mf_fusions[f];
                n = by->takes_back(&kernel[i], &k[i], all - i, samples);
            }
        n = n < 2 ? 1 : n;
        runs.push_back({n < 2 ? NULL : by, std::vector<int>(number.begin() + i, number.begin() + i + n)});
    }
    return runs;
}

void mf_program_fuse(mf_program *p, mf_gpu_part *q, int samples)
{
    q->back = backward_runs(p, q, false, samples);
    q->back_shared = backward_runs(p, q, true, 1);
    q->run.clear();
    for (int i = 0; i < p->l->n_calls; i++)
        q->run.push_back(run_from(p, q, i, samples));
}
