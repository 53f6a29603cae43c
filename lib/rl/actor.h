/* actor.h - environments and who acts in them: fills the arrays of one rollout.
 *
 *   T decision steps  N environments  To observation steps  O one observation
 *   C executed actions  A action dim  K denoising steps
 *
 * Who acts is the flow policy (a sampler), or the environment's scripted
 * expert where there is none (then To = C = 1, every environment plays its
 * first episode and `valid` is 0 after it).
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
    bool encode;       /* the rollout carries encodings where they are smaller: the encoder is frozen */
};

struct mf_actor {
    struct mf_actor_opts opts;
    struct mf_vec *vec;
    struct mf_policy *policy;   /* NULL: the expert acts */
    struct mf_sampler *sampler; /* borrowed, as the policy */
    struct mf_columns columns;  /* the rollout: arrays of the stream, by name */
    int N, O, To, C, A, D, K;
    struct mf_layout carried; /* what of an observation the rollout carries: all, or mf_net_encoded's */
    bool encoded;             /* its last one is the encoding */
    bool started, told;       /* told: how long a round takes */
    int64_t global_step;      /* control steps of valid rows so far */
    struct mf_scale scale;
    struct mf_episodes episodes;
    struct mf_tally ended, counted; /* of this rollout: the episodes that ended in it, those that it reports on */
    struct mf_rollout_ids id;
    float *history, *final_history;             /* (N, To, O) */
    float *noise, *eps, *values, *chunk_reward; /* (N, D), (N, K, D), (N), (N) */
    double *running;                            /* (N) discounted returns of the reward scale */
    uint8_t *over;                              /* (N) the episode ended with this row */
    struct mf_arena arena;
};

int mf_actor_init(struct mf_actor *a, const struct mf_actor_opts *opts, struct mf_policy *p, struct mf_sampler *s,
                  struct mf_err *err);
/* Adds the estimated memory of an actor with this policy, beside the environments: policy, sampler, a round and a frame
 * of it of at most `slice` bytes, and a version of the policy that arrives. Allocates nothing of it. */
int mf_actor_memory(struct mf_engine *e, const struct mf_policy_spec *spec, const struct mf_actor_opts *opts,
                    size_t slice, struct mf_memory *to, struct mf_err *err);
void mf_actor_release(struct mf_actor *a); /* safe on a zeroed one */

/* Fill the columns with T decisions. MF_STOPPED on TERM; 1 when INT asked for an end first (the rollout is not
 * whole), else 0. */
int mf_actor_rollout(struct mf_actor *a, struct mf_err *err);

/* All that determines the future, malloc'ed; and back. *exact is false where the environments cannot be saved: they
 * began new episodes. */
int mf_actor_save(const struct mf_actor *a, void **bytes, size_t *size, struct mf_err *err);
int mf_actor_load(struct mf_actor *a, const void *bytes, size_t size, bool *exact, struct mf_err *err);

#endif
