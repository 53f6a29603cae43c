/* round.h - n rows of the peer's file as the round that an update takes. */
#ifndef MF_BENCH_ROUND_H
#define MF_BENCH_ROUND_H

#include "bench.h"
#include "flow/grid.h"
#include "rl/rows.h"

/* obs (n, O), malloc'ed, becomes the round's; old: the name of the log-probabilities at rollout. */
static inline void bench_round(struct mf_rows *r, const struct mf_policy *p, const struct mf_safetensors *f, size_t n,
                               float *obs, const char *old)
{
    const struct mf_policy_spec *s = &p->spec;
    const size_t K = (size_t)s->K;
    *r = (struct mf_rows){.n = n,
                          .n_live = n,
                          .T = n,
                          .N = 1,
                          .O = s->net.O,
                          .D = s->net.D,
                          .P = s->K + 1,
                          .k = s->K,
                          .C = s->n_action_steps,
                          .E = 1};
    r->live = mf_xcalloc(n, sizeof *r->live);
    r->coef = mf_xcalloc(n * K * 3, sizeof *r->coef);
    r->n_exec = mf_xcalloc(n, sizeof *r->n_exec);
    r->share = mf_xcalloc(n, sizeof *r->share);
    for (size_t i = 0; i < n; i++) {
        r->live[i] = (uint32_t)i;
        r->n_exec[i] = r->C;
        r->share[i] = 1;
        for (size_t k = 0; k < K; k++)
            mf_flow_coef(s, (int)k, p->noise_high, true, r->coef + (i * K + k) * 3);
    }
    r->obs = obs;
    r->chain = bench_rows(f, "chains", n);
    r->old = bench_rows(f, old, n);
    r->advantage = bench_rows(f, "advantages", n);
    r->returns = bench_rows(f, "returns", n);
    r->values = bench_rows(f, "values", n);
}

#endif
