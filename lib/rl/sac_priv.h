/* sac_priv.h - the networks and plans that sac.c builds and sac_update.c runs (private to lib/rl). */
#ifndef MF_RL_SAC_PRIV_H
#define MF_RL_SAC_PRIV_H

#include "flow/sampler.h"
#include "rl/learned.h"
#include "rl/qnet.h"
#include "rl/sac.h"

struct mf_sac_net { /* a plan and its values; those that it lacks are MF_NONE */
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_val obs, x, eps, y, weight, alpha; /* inputs: summary (or observation), action or noise, .. */
    struct mf_val out, logpi, loss, minus;       /* minus: shared, -1 */
};

/* Plans of the critics take the observation's summary and an action, or a noise over its magnitude. */
enum mf_sac_plan {
    MF_SAC_SUMMARY, /* obs -> out: the summary, of the policy */
    MF_SAC_PI,      /* obs, eps -> out: tanh(u), logpi */
    MF_SAC_ACTOR,   /* obs, eps, alpha, weight -> loss, logpi, out: min_j Qw_j */
    MF_SAC_TD,      /* obs, x, y, weight -> loss */
    MF_SAC_TARGET,  /* obs, x -> out (n): the averaged critics */
    MF_SAC_NOW,     /* na: obs, x -> out (n): the critics of actions */
    MF_SAC_DISTILL, /* na: obs, x, y, weight -> loss, of the critics of noise */
    MF_SAC_PLANS
};

struct mf_sac {
    struct mf_engine *engine;
    struct mf_policy *policy;
    struct mf_sac_opts opts;
    int F, D, X, n;            /* numbers of the summary, the noise, an executed action; critics */
    struct mf_learned agent;   /* the latent actor and the critics of noise */
    struct mf_learned critics; /* na: of actions */
    struct mf_learned *td;     /* the one with the target critics */
    struct mf_sac_net net[MF_SAC_PLANS];
    struct mf_policy plain; /* the flow, for normalised observations and actions; the policy's parameters, borrowed */
    float *identity;
    struct mf_sampler *flow;
    struct mf_replay replay;
    struct mf_sac_stats stats;
    double log_alpha, alpha_m, alpha_v;
    int64_t seen, steps, distilled; /* live decisions; gradient steps; those of distillations */
    int64_t alpha_steps;
    int64_t kept; /* the version whose round was written last */
};

size_t mf_sac_minibatch(const struct mf_sac *s); /* bytes */
void mf_sac_publish(struct mf_sac *s);           /* the policy's actor becomes the trained one */

#endif
