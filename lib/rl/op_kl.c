/* op_kl.c - the KL divergence from the policy that sampled. */
#include "dev/device.h"
#include "graph/record.h"
#include "rl/loss_at.h"
#include "rl/losses.h"

static void forward(const struct mf_call *c, int n)
{
    int E = c->x[0].cols;
    for (int s = 0; s < n; s++) {
        double sum = 0.0;
        for (int i = s * E; i < (s + 1) * E; i++)
            if (c->x[2].data[i] != 0.0f)
                sum += (double)c->x[2].data[i] * mf_kl_element(c->x[3].data, c->x[0].data[i], c->x[1].data[i]);
        c->y.data[s] = (float)sum;
    }
}

static const struct mf_op op = {.name = "kl", .forward = forward};

struct mf_val mf_kl(struct mf_graph *g, struct mf_val logp, struct mf_val old, struct mf_val weight,
                    struct mf_val knobs)
{
    struct mf_val all[] = {logp, old, weight, knobs};
    int E = mf_cols(g, logp);
    bool fits = mf_has_shape(g, knobs, 1, 4) && mf_is_shared(g, knobs);
    for (int i = 0; i < 3; i++)
        fits = fits && mf_has_shape(g, all[i], 1, E) && !mf_is_shared(g, all[i]);
    mf_record_want(g, fits, &op, 4, all);
    return mf_record(g, &op, NULL, 4, all, 1, 1);
}
