#include "dev/ref.h"

#include <string.h>

#include "dev/act.h"

void mf_ref_zero(const struct mf_call *c, int n)
{
    for (int i = 0; i < c->n_x; i++)
        if (c->x[i].grad && !c->x[i].add)
            memset(c->x[i].grad, 0, sizeof(float) * (size_t)mf_tile_rows(&c->x[i], n) * (size_t)c->x[i].cols);
}

void mf_ref_add_act(const struct mf_call *c, int n, int first, enum mf_act act)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            size_t at = (size_t)i * (size_t)N + (size_t)j;
            float sum = c->y.data[at], slope;
            for (int r = first; r < c->n_x; r++)
                sum += c->x[r].data[(size_t)mf_row_of(&c->x[r], &c->y, i) * (size_t)N + (size_t)j];
            c->y.data[at] = mf_act_of(act, sum, c->aux ? &c->aux[at] : &slope);
        }
}

void mf_ref_add_act_back(const struct mf_call *c, int n, int first, enum mf_act act)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            size_t at = (size_t)i * (size_t)N + (size_t)j;
            float d = mf_act_back(act, c->y.grad[at], c->y.data[at], c->aux ? c->aux[at] : 0.0f);
            c->y.grad[at] = d;
            for (int r = first; r < c->n_x; r++)
                if (c->x[r].grad)
                    c->x[r].grad[(size_t)mf_row_of(&c->x[r], &c->y, i) * (size_t)N + (size_t)j] += d;
        }
}

bool mf_ref_by_rows(const struct mf_call *c)
{
    bool good = true;
    for (int k = 0; k < c->n_x; k++)
        good = good && (mf_same_rows(&c->x[k], &c->y) || (c->x[k].shared && c->x[k].rows == 1));
    return good;
}
