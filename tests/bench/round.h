/* round.h - n rows of the peer's file as the round that an update takes. */
#ifndef MF_BENCH_ROUND_H
#define MF_BENCH_ROUND_H

#include "bench.h"
#include "flow/grid.h"
#include "rl/rows.h"

static inline void bench_fill(float *to, void *from, size_t n)
{
    memcpy(to, from, n * sizeof *to);
    free(from);
}

/* obs (n, O) is malloc'ed, and freed here; old: the name of the log-probabilities at rollout. */
static inline void bench_round(struct mf_rows *r, const struct mf_policy *p, const struct mf_safetensors *f, size_t n,
                               float *obs, const char *old)
{
    const struct mf_policy_spec *s = &p->spec;
    const size_t K = (size_t)s->K;
    struct mf_err err;
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
    bench_must(mf_rows_alloc(r, &err), &err);
    for (size_t i = 0; i < n; i++) {
        r->live[i] = (uint32_t)i;
        r->n_exec[i] = r->C;
        r->share[i] = 1;
        for (size_t k = 0; k < K; k++)
            mf_flow_coef(s, (int)k, p->noise_high, true, r->coef + (i * K + k) * 3);
    }
    bench_fill(r->obs, obs, n * (size_t)r->O);
    bench_fill(r->chain, bench_rows(f, "chains", n), n * (size_t)(r->P * r->D));
    bench_fill(r->old, bench_rows(f, old, n), n);
    bench_fill(r->advantage, bench_rows(f, "advantages", n), n);
    bench_fill(r->returns, bench_rows(f, "returns", n), n);
    bench_fill(r->values, bench_rows(f, "values", n), n);
}

#endif
