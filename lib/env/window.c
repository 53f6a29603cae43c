#include "env/window.h"

#include <string.h>

static void push(float *w, size_t To, size_t O, const float *obs, bool fresh)
{
    memmove(w, w + O, (To - 1) * O * sizeof *w);
    for (size_t o = fresh ? 0 : To - 1; o < To; o++)
        memcpy(w + o * O, obs, O * sizeof *w);
}

void mf_window_follow(float *w, size_t To, size_t O, const struct mf_decision *d, int n, const float *last)
{
    const float *trail = To > 1 ? d->trail + (size_t)n * (To - 1) * O : NULL;
    for (int32_t i = 0; trail && i < d->n_trail[n]; i++)
        push(w, To, O, trail + (size_t)i * O, false);
    push(w, To, O, last, false);
}

void mf_windows_push(float *w, int N, size_t To, size_t O, const struct mf_decision *d, const float *obs)
{
    for (int n = 0; n < N; n++, w += To * O, obs += O)
        if (!d || d->fresh[n])
            push(w, To, O, obs, true);
        else
            mf_window_follow(w, To, O, d, n, obs);
}
