#include "cpu/fast.h"

#include <string.h>

const struct mf_fast *mf_fast_find(const struct mf_fast *const *all, const char *op)
{
    for (; all && *all; all++)
        if (!strcmp((*all)->name, op))
            return *all;
    return NULL;
}

void mf_cpu_forward(const struct mf_cpu_call *c, int n)
{
    if (c->fast)
        c->fast->forward(c, n);
    else
        c->op->forward(&c->call, n);
}

void mf_cpu_backward(const struct mf_cpu_call *c, int n, float *lane)
{
    if (c->fast && c->fast->backward)
        c->fast->backward(c, n, lane);
    else
        c->op->backward(&c->call, n, lane);
}

size_t mf_cpu_work(const struct mf_cpu_call *c, int n, bool backward)
{
    if (c->fast)
        return c->fast->work ? c->fast->work(c, n, backward) : 0;
    return c->op->work ? c->op->work(&c->call, n, backward) : 0;
}
