/* eval.h - evaluates a policy on fixed trials, without exploration noise.
 *
 * Trial i starts in the state of (seed, environment i, episode 0), and its
 * decision j samples from the initial noise of (seed, environment i, step j).
 * So all policies are evaluated on the same trials, and a trial's result does
 * not depend on the other trials or on the number of threads.
 */
#ifndef MF_EVAL_EVAL_H
#define MF_EVAL_EVAL_H

#include "base/err.h"
#include "env/reel.h"
#include "env/vec.h"
#include "eval/student.h"
#include "flow/sampler.h"

/* straightness: how far the flow's paths bend; 0 is a straight line. Of a decision with the points x_0 .. x_K, x_0 its
 * initial noise, it is
 *
 *   1/K sum_k |K (x_{k+1} - x_k) - (x_K - x_0)|^2 / (H A)
 *
 * in normalised actions, clamps included: S(Z) of Liu et al. 2022, "Flow straight and fast", section 2.2, on the K
 * steps and per element. K = 1 gives 0, so compare it at one K. A trial has the mean over its decisions. NaN: unknown.
 */
struct mf_trial {
    float ret, straightness;
    int32_t length; /* control steps */
    bool success_once, success_at_end;
    int32_t task; /* of an environment with language; else 0 */
};

double mf_straightness(const float *chain, int K, int D); /* of one decision: chain (K+1, D) */

struct mf_eval_opts {
    const struct mf_env *env;
    int trials, num_envs, threads, max_steps; /* num_envs: trials in parallel; threads, max_steps 0: the default */
    uint64_t seed;
    struct mf_reel *reel; /* records its first trials; NULL: none */
};

/* trial (opts->trials). The sampler is made for evaluation. MF_STOPPED after SIGINT or SIGTERM. */
int mf_eval(const struct mf_eval_opts *opts, const struct mf_policy *p, struct mf_sampler *s, struct mf_trial *trial,
            struct mf_err *err);

struct mf_rate { /* a rate with its 95 % confidence interval */
    double rate, low, high;
};
/* Wilson 1927: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), z = 1.96. n > 0. */
struct mf_rate mf_wilson(int64_t k, int64_t n);

struct mf_score_sheet {
    struct mf_rate success_once, success_at_end;
    struct mf_mean ret;
    double ret_std, length; /* the standard deviation of the return, n-1; mean over the trials */
    double straightness;    /* mean over the trials */
};
struct mf_score_sheet mf_eval_sum(const struct mf_trial *trial, int n);
/* Of the trials of one task, *count of them; 0: none, and nothing is written to s. */
void mf_eval_task(const struct mf_trial *trial, int n, int task, struct mf_score_sheet *s, int *count);

#endif
