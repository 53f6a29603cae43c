/* sampler.h - samples chains of a policy: actions from observations and noise. */
#ifndef MF_FLOW_SAMPLER_H
#define MF_FLOW_SAMPLER_H

#include "flow/policy.h"
#include "graph/plan.h"

struct mf_sampler;
int mf_sampler_new(struct mf_sampler **s, struct mf_engine *e, struct mf_policy *p, bool evaluation,
                   struct mf_err *err);
/* Adds the estimated memory of a sampler of n rows; also of a policy that is an outline. */
void mf_sampler_memory(const struct mf_sampler *s, size_t n, struct mf_memory *to);
void mf_sampler_free(struct mf_sampler *s);

struct mf_sample {         /* n rows each; the caller's arrays */
    const float *obs;      /* (n, O) raw: normalised inside */
    const float *noise;    /* (n, D) N(0, 1): initial noise x_0; steered, the noise of the latent actor */
    const float *eps;      /* (n, K, D); NULL in evaluation */
    const int32_t *inds;   /* (n, K): denoise_inds; NULL in evaluation (ODE) */
    const uint64_t *draws; /* (n): names of FPO's draws (fpo.h), which needs no eps and inds; else NULL */
    float *chains;         /* (n, K+1, D), or NULL */
    float *samples;        /* (n, D) normalised: the last point, steered the initial noise; or NULL */
    float *logprobs;       /* (n, E), or NULL: mf_logprob_width */
    float *values;         /* (n), or NULL */
    float *actions;        /* (n, C, A) environment units, the executed slice */
    float *encoding;       /* (n, To, ..) the encoder's output, as mf_net_encoded lays it out; or NULL */
};
int mf_sampler_run(struct mf_sampler *s, int n, const struct mf_sample *x, struct mf_err *err);
/* The last points of chains alone, (n, D) normalised, from observations (n, O) that are normalised already; in
 * evaluation. */
int mf_sampler_points(struct mf_sampler *s, int n, const float *obs, const float *noise, float *points,
                      struct mf_err *err);
/* Values alone: observations (n, O) -> (n). */
int mf_sampler_values(struct mf_sampler *s, int n, const float *obs, float *values, struct mf_err *err);

#endif
