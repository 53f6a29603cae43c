#include "rl/learned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int mf_learned_open(struct mf_learned *l, const struct mf_engine *e, uint64_t seed, bool outline, struct mf_err *err)
{
    int rc = outline ? 0 : mf_params_alloc(&l->params, err);
    l->averaged = l->params;
    l->averaged.value = NULL;
    if (rc || (rc = mf_adam_init(&l->adam, e, &l->params, err)) || outline)
        return rc;
    if ((rc = mf_params_alloc(&l->averaged, err)) ||
        (rc = mf_alloc((void **)&l->ema, l->adam.floats * sizeof *l->ema, "averaged weights", err)))
        return rc;
    mf_params_fresh(&l->params, seed);
    memcpy(l->ema, l->params.value + l->adam.first, l->adam.floats * sizeof *l->ema);
    l->adam.ema = l->ema;
    return 0;
}

void mf_learned_release(struct mf_learned *l)
{
    mf_adam_release(&l->adam);
    free(l->averaged.value); /* the table is that of params */
    mf_params_release(&l->params);
    free(l->ema);
    *l = (struct mf_learned){.ema = NULL};
}

void mf_learned_memory(const struct mf_learned *l, struct mf_engine *e, struct mf_memory *to)
{
    const double floats = 2 * (double)l->params.size + 3 * (double)l->adam.floats; /* weights twice; average, moments */
    to->of[MF_MEMORY_WEIGHTS] += floats * sizeof(float);
    mf_engine_memory(e, floats, to);
}

void mf_learned_arrays(const struct mf_learned *l, const char *name, struct mf_array a[4])
{
    static const char *const of[] = {"weights", "average", "m", "v"};
    float *const data[] = {l->params.value, l->ema, l->adam.m, l->adam.v};
    for (int i = 0; i < 4; i++) {
        const size_t n = i ? l->adam.floats : l->params.size;
        a[i] = (struct mf_array){.dtype = MF_F32, .rank = 1, .count = n, .data = data[i]};
        snprintf(a[i].name, sizeof a[i].name, "%s/%s", name, of[i]);
        a[i].dim[0] = a[i].count;
        a[i].bytes = a[i].count * sizeof(float);
    }
}

void mf_learned_touch(struct mf_learned *l)
{
    mf_params_touch(&l->params);
    mf_adam_touch(&l->adam);
}
