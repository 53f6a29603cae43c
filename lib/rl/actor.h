/* actor.h - acts in environments and fills the arrays of one rollout.
 *
 *   T decision steps  N environments  To observation steps  O one observation
 *   C executed actions  A action dim  K denoising steps
 *
 * The flow policy acts, by a sampler. Without a policy, the environment's
 * scripted expert acts: then To = C = 1, every environment runs its first
 * episode, and `valid` is 0 after it.
 *
 * With vec.group G > 1, environments n of the same n / G start their k-th episode from the same state. An episode may
 * be compared with another of its group once both have ended, so every rollout starts new episodes, of one number in
 * all environments, and drops those that it cuts. It carries one more array: `group` (T, N), which is
 * k * (N / G) + n / G modulo 2^31.
 */
#ifndef MF_RL_ACTOR_H
#define MF_RL_ACTOR_H

#include "base/layout.h"
#include "flow/sampler.h"
#include "graph/plan.h"
#include "nn/net.h"
#include "stream/columns.h"
#include "env/vec.h"
#include "rl/episodes.h"
#include "rl/rollout_columns.h"
#include "rl/scale.h"

struct mf_actor_opts {
    struct mf_vec_opts vec;
    int T;
    bool reward_scale; /* add rewards_scaled */
    double gamma;      /* of the reward scale */
    bool encode;       /* the encoder is frozen: the rollout carries encodings where they are smaller */
};

struct mf_actor {
    struct mf_actor_opts opts;
    struct mf_vec *vec;
    struct mf_policy *policy;   /* NULL: the expert acts */
    struct mf_sampler *sampler; /* borrowed, as the policy */
    struct mf_columns columns;  /* the rollout: arrays of the stream, by name */
    int N, O, To, C, A, D, K;
    struct mf_layout carried; /* the observations that the rollout carries: all, or mf_net_encoded's */
    int encoding;             /* which of them is the encoding; -1: none */
    bool started, announced;  /* announced: the duration of a round is logged */
    int64_t global_step;      /* control steps of valid rows so far */
    struct mf_scale scale;
    struct mf_episodes episodes;
    struct mf_tally ended, counted; /* episodes that ended in this rollout; episodes that it reports on */
    struct mf_rollout_ids id;
    float *history, *final_history;             /* (N, To, O) */
    float *noise, *eps, *values, *chunk_reward; /* (N, D), (N, K, D), (N), (N) */
    double *running;                            /* (N) discounted returns of the reward scale */
    uint8_t *over;                              /* (N) the episode ended with this row */
    struct mf_arena arena;
};

/* 0, or MF_EUSAGE: these options do not fit each other or the policy. Its sentences name the keys of mf-collect. */
int mf_actor_check(const struct mf_actor_opts *o, const struct mf_policy_spec *s, struct mf_err *err);
int mf_actor_init(struct mf_actor *a, const struct mf_actor_opts *opts, struct mf_policy *p, struct mf_sampler *s,
                  struct mf_err *err);
/* Adds the estimated memory of an actor with this policy, without the environments: the policy, the sampler, a round
 * and `kept` earlier ones, a frame of at most `slice` bytes, and the next version of the policy as it arrives, without
 * the frozen parameters that it has. Allocates none of it. */
int mf_actor_memory(struct mf_engine *e, struct mf_policy *outline, const struct mf_actor_opts *opts, double kept,
                    size_t slice, struct mf_memory *to, struct mf_err *err);
void mf_actor_release(struct mf_actor *a); /* safe on a zeroed one */

/* Fills the columns with T decisions and returns 0. MF_STOPPED on SIGTERM; 1 on SIGINT, with an incomplete rollout. */
int mf_actor_rollout(struct mf_actor *a, struct mf_err *err);

/* The state from which the actor continues, malloc'ed; and back. *exact is false where the environments cannot be
 * saved: then load starts new episodes. */
int mf_actor_save(const struct mf_actor *a, void **bytes, size_t *size, struct mf_err *err);
int mf_actor_load(struct mf_actor *a, const void *bytes, size_t size, bool *exact, struct mf_err *err);

#endif
