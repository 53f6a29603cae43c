#include "cpu/pass_back.h"

#include <string.h>

#include "cpu/kern.h"

int mf_pass_back(const struct mf_call *c, int n, int first, enum mf_act act, float *db, int *live)
{
    const struct mf_kern *k = mf_kern();
    size_t N = (size_t)c->y.cols;
    int M = 0;
    for (int r = first; r < c->n_x; r++)
        if (c->x[r].grad && !c->x[r].add && !mf_same_rows(&c->x[r], &c->y))
            memset(c->x[r].grad, 0, sizeof(float) * (size_t)mf_tile_rows(&c->x[r], n) * N);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        size_t at = (size_t)i * N;
        float *g = c->y.grad + at;
        bool any = k->act_back(act, N, g, c->y.data + at, c->aux ? c->aux + at : NULL);
        for (int r = c->n_x - 1; r >= first; r--) {
            const struct mf_tensor *x = &c->x[r];
            if (x->grad && !x->add && mf_same_rows(x, &c->y))
                memcpy(x->grad + at, g, sizeof(float) * N);
            else if (x->grad && any)
                k->add(N, x->grad + (size_t)mf_row_of(x, &c->y, i) * N, g);
        }
        if (any && db)
            k->add(N, db, g);
        if (any && live)
            live[M++] = i;
    }
    return M;
}
