/* policy.h - a flow policy: what it is, its weights, sampling its chains and scoring them.
 *
 * One graph gives mean and std at rollout and in the update (score.c builds
 * both), so the PPO ratio is exactly 1 before the first step.
 *
 *   A action dim  H horizon  C executed actions  K denoising steps  D = H*A
 *   O = n_obs_steps * obs.dim
 */
#ifndef MF_FLOW_POLICY_H
#define MF_FLOW_POLICY_H

#include "base/err.h"
#include "stream/frame.h"
#include "graph/plan.h"
#include "nn/net.h"

enum { MF_STEPS_MAX = 128 }; /* denoising steps at most */

enum mf_convention { MF_NOISE0, MF_NOISE1 };            /* where t = 0 is noise, or t = 1 */
enum mf_target_time { MF_TARGET_STEP, MF_TARGET_ZERO }; /* what a network that takes a step size is given: 1/K, or 0 */
enum mf_noise_method {
    MF_FLOW_ODE,
    MF_FLOW_NOISE,
    MF_FLOW_SDE,
    MF_FLOW_CPS
};                                       /* spec words: none flow_noise flow_sde flow_cps */
enum mf_denoise { MF_JOINT, MF_SINGLE }; /* all steps stochastic, or one drawn per sample */
enum mf_objective { MF_CHAIN_MEAN, MF_CHAIN_SUM, MF_STEP, MF_STEP_MEAN };
enum mf_level_schedule { MF_CONSTANT, MF_LINEAR, MF_EXPONENTIAL, MF_HOLD_COSINE };

struct mf_policy_spec {   /* all that shapes sampling and scoring; in the checkpoint's metadata and the head's spec */
    struct mf_layout obs; /* of one observation step */
    int n_obs_steps, action_dim, horizon, n_action_steps, action_offset;
    int K; /* policy.num_inference_steps */
    enum mf_convention convention;
    enum mf_target_time target_time;
    enum mf_noise_method noise_method;
    enum mf_denoise denoise;
    enum mf_objective objective;
    bool learned_noise; /* flow_noise with a noise net; else sigma is the schedule's level */
    float mean_limit;   /* mean kept within +-; 0: not */
    float noise_clip;   /* eps kept within +-; 0: not */
    float final_limit;  /* last step kept within +-; 0: not */
    struct mf_net_spec net;
    int n_critic, critic[MF_DIMS_MAX]; /* hidden sizes; 0: no critic */
    int n_noise, noise[MF_DIMS_MAX];
    char env[64]; /* the environment that it was made in, by its name; "": nobody knows. It shapes nothing */
};

struct mf_policy {
    struct mf_policy_spec spec;
    struct mf_params params;             /* network.*, critic.*, explore_noise_net.* */
    float *obs_scale, *obs_offset;       /* (obs.dim) normalised = x*scale + offset */
    float *action_scale, *action_offset; /* (action_dim) */
    bool has_normalizer;
    bool encoder_frozen;                /* scoring's gradients do not reach the observation's encoder */
    int64_t version, iter, global_step; /* of the weights; rounds consumed; control steps so far */
    double noise_low, noise_high; /* in force: flow_noise's bounds of sigma, or the level of sde and cps in both */
};

int mf_policy_init(struct mf_policy *p, const struct mf_policy_spec *spec,
                   struct mf_err *err); /* params allocated, zero */
/* The same without the numbers: params have names and shapes and no values. */
int mf_policy_outline(struct mf_policy *p, const struct mf_policy_spec *spec, struct mf_err *err);
void mf_policy_fresh(struct mf_policy *p, uint64_t seed); /* initial weights, identity normaliser */
void mf_policy_plain(struct mf_policy *p);                /* the identity as normaliser */
void mf_policy_release(struct mf_policy *p);

/* The upper bound (or level) at progress p of a schedule, from high at 0 to low at 1: HOLD_COSINE holds it until .35,
 * then falls to .3 low + .7 high. */
double mf_noise_level(enum mf_level_schedule schedule, double low, double high, double progress);

/* Bounds of sigma (or the level in both) from now on; explore_noise_net.logvar_{min,max} follow. */
void mf_policy_set_noise(struct mf_policy *p, double low, double high);

/* (cx, cv, s) of step k for mean = cx x + cv v, std = s, in the policy's own convention; `stochastic` false: the
 * ODE step, s = 0. For learned noise s is 1: the factor of the net's std. */
void mf_flow_coef(const struct mf_policy_spec *s, int k, double level, bool stochastic, float coef[3]);
double mf_flow_time(const struct mf_policy_spec *s, int k); /* t_k: the one grid of sampling and scoring */

/* spec <-> a head frame's "spec" map and <-> a checkpoint's metadata; both refuse what does not agree, with both
 * values. */
void mf_policy_spec_to_head(const struct mf_policy_spec *s, struct mf_frame *head);
int mf_policy_spec_from_head(struct mf_policy_spec *s, const struct mf_frame *head, struct mf_err *err);
int mf_policy_spec_agree(const struct mf_policy_spec *a, const char *a_name, const struct mf_policy_spec *b,
                         const char *b_name, struct mf_err *err);

/* out = obs*scale + offset, n rows of O: the one way in, so that the bits agree everywhere. In float; from an offset of
 * MF_FAR on in double, where float would round a narrow range far from 0 away. */
enum { MF_FAR = 4096 };
void mf_policy_normalize(const struct mf_policy *p, size_t n, const float *obs, float *out);
/* The same of n floats of one step, which begin at a column of its layout. */
void mf_policy_normalize_part(const struct mf_policy *p, int column, size_t n, const float *obs, float *out);

/* ---- sampling ---- */

struct mf_sampler;
int mf_sampler_new(struct mf_sampler **s, struct mf_engine *e, struct mf_policy *p, bool evaluation,
                   struct mf_err *err);
/* What a policy and its sampler take for n rows, added; nothing is allocated. */
int mf_sampler_memory(struct mf_engine *e, const struct mf_policy_spec *spec, bool evaluation, size_t n,
                      struct mf_memory *to, struct mf_err *err);
void mf_sampler_free(struct mf_sampler *s);

struct mf_sample {       /* n rows each; the caller's arrays */
    const float *obs;    /* (n, O) raw: normalised inside */
    const float *noise;  /* (n, D) initial noise x_0 */
    const float *eps;    /* (n, K, D); NULL in evaluation */
    const int32_t *inds; /* (n, K): denoise_inds; NULL in evaluation (ODE) */
    float *chains;       /* (n, K+1, D), or NULL */
    float *logprobs;     /* (n, E), or NULL: mf_logprob_width */
    float *values;       /* (n), or NULL */
    float *actions;      /* (n, C, A) environment units, the executed slice */
    float *encoding;     /* (n, To, ..) what the encoder made of obs, as mf_net_encoded lays it out; or NULL */
};
int mf_sampler_run(struct mf_sampler *s, int n, const struct mf_sample *x, struct mf_err *err);
/* V of observations alone (n, O) -> (n). */
int mf_sampler_values(struct mf_sampler *s, int n, const float *obs, float *values, struct mf_err *err);

int mf_logprob_width(const struct mf_policy_spec *s); /* E of prev_logprobs in the stream: 1, or C*A */

/* ---- scoring: the graph from a chain to log-probabilities, for the update ---- */

struct mf_score {           /* inputs to feed, values to use */
    struct mf_val obs;      /* (1, O) normalised, as spec.net.obs */
    struct mf_val chain;    /* joint: (K+1, D). single: (2, D): x_k, x_{k+1} of the drawn k */
    struct mf_val time;     /* joint: shared (K, 1). single: (1, 1) per sample */
    struct mf_val step;     /* shared (k, 1): the step size for nets that take one, else MF_NONE */
    struct mf_val coef;     /* (k, 3) per sample, of mf_flow_coef; k = K or 1 */
    struct mf_val bounds;   /* shared (1, 2): log-variance bounds of learned noise, else MF_NONE */
    struct mf_val rest;     /* shared (1, 1): the initial noise's share of the entropy, else MF_NONE */
    struct mf_val elements; /* (k, D) */
    struct mf_val logprobs; /* (1, E) as the stream's prev_logprobs */
    struct mf_val entropy;  /* (1, 1), or MF_NONE where sigma has no parameters */
    struct mf_val value;    /* (1, 1), or MF_NONE */
};
void mf_score_build(struct mf_graph *g, struct mf_policy *p, struct mf_score *out);
void mf_score_set(struct mf_plan *plan, const struct mf_score *s, const struct mf_policy *p); /* the shared inputs */

/* ---- cloning ---- */

enum mf_clone_loss { MF_CLONE_FLOW, MF_CLONE_SHORTCUT, MF_CLONE_CONSISTENCY };
enum mf_time_sampling { /* auto: beta for the consistency loss, else uniform */
                        MF_TIME_AUTO,
                        MF_TIME_UNIFORM,
                        MF_TIME_LOGIT_NORMAL,
                        MF_TIME_BETA,
};
struct mf_cloner; /* builds the loss's graphs, draws times and noises */
struct mf_clone_opts {
    enum mf_clone_loss loss;
    enum mf_time_sampling sampling;
    float dropout; /* of a transformer's self-attention */
    uint64_t seed;
};
int mf_cloner_new(struct mf_cloner **c, struct mf_engine *e, struct mf_policy *p, const struct mf_clone_opts *opts,
                  struct mf_err *err);
/* What that and its minibatches of n take, with the weights, their average and moments; added, nothing is allocated. */
int mf_cloner_memory(struct mf_engine *e, const struct mf_policy_spec *spec, const struct mf_clone_opts *opts, size_t n,
                     struct mf_memory *to, struct mf_err *err);
void mf_cloner_free(struct mf_cloner *c);
/* Loss and gradients of one batch: obs (n, O), actions (n, D), both normalised, by index; ema: the teacher's
 * parameters (laid out as params.value; NULL: none), of which it takes the policy's: it sees through the encoder that
 * learns. Draws are a function of (seed, step). */
int mf_cloner_run(struct mf_cloner *c, int64_t step, size_t n, const uint32_t *index, const float *obs,
                  const float *actions, const float *ema, double *loss, float **grads, struct mf_err *err);

/* What an average (EMA) is kept of: all that acts. */
static inline bool mf_is_averaged(enum mf_group group)
{
    return group == MF_GROUP_POLICY || group == MF_GROUP_ENCODER;
}

/* decay = 1-(1+step/inv_gamma)^-power within [0, max] */
double mf_ema_decay(int64_t step, double inv_gamma, double power, double max);

/* ---- files and frames ---- */

/* A checkpoint holds only what determines the numbers: no paths, times, hosts, thread counts. */
struct mf_origin;
struct mf_checkpoint {
    struct mf_policy *policy;
    const float *ema;               /* as params.value, or NULL */
    const struct mf_origin *origin; /* of the numbers of a policy that is an outline; NULL: of none */
    bool origin_ema;                /* it has "ema/NAME", too */
    const struct mf_adam *adam;     /* or NULL */
    const char *kind;               /* "clone" or "ppo" */
    int n_states;                   /* collectors' states, unread */
    const struct mf_state {
        char src[64];
        const void *bytes;
        size_t size;
    } * states;
    int n_extra; /* further "key" -> decimal text that the learner needs (counters, seed) */
    const char *(*extra)[2];
};
int mf_checkpoint_save(const char *path, const struct mf_checkpoint *c,
                       struct mf_err *err); /* NAME.part, fsync, rename */

struct mf_safetensors;
/* A checkpoint's n tensors without what only training needs; average: the EMA in the place of the weights, NULL where
 * there is none. They borrow from f; free() gives back the list. */
struct mf_array *mf_weights_alone(const struct mf_safetensors *f, bool average, int *n);

enum mf_weights { MF_WEIGHTS_AUTO, MF_WEIGHTS_RAW, MF_WEIGHTS_EMA }; /* auto: EMA of a clone, raw of PPO */
struct mf_loaded;                                                    /* an open checkpoint */
int mf_checkpoint_open(struct mf_loaded **l, const char *path, struct mf_err *err);
void mf_checkpoint_close(struct mf_loaded *l);
const char *mf_loaded_path(const struct mf_loaded *l);
const struct mf_policy_spec *mf_loaded_spec(const struct mf_loaded *l);
const char *mf_loaded_kind(const struct mf_loaded *l);
const char *mf_loaded_extra(const struct mf_loaded *l, const char *key); /* NULL: none */
const struct mf_safetensors *mf_loaded_file(const struct mf_loaded *l);  /* the raw tensors and metadata */
int mf_loaded_states(const struct mf_loaded *l, const struct mf_state **states);
/* Copies weights, normaliser, counters into an initialised policy whose spec agrees; a tensor that is missing, left
 * over or misshapen is named. A policy without normaliser is refused. critic.* may be missing in a clone (kept fresh).
 */
int mf_loaded_policy(const struct mf_loaded *l, struct mf_policy *p, enum mf_weights which, struct mf_err *err);
/* Which of the two that takes. */
bool mf_loaded_uses_ema(const struct mf_loaded *l, const struct mf_params *ps, enum mf_weights which);
/* Where the file was made to go on with: Adam's moments and steps; the EMA (of what acts; the others raw). */
int mf_loaded_adam(const struct mf_loaded *l, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err);
int mf_loaded_ema(const struct mf_loaded *l, const struct mf_params *ps, float *ema, struct mf_err *err);

/* The policy edge: all that sampling reads, as n encoded frames of at most 64 MiB of tensors. drop gives them back. */
int mf_policy_encode(const struct mf_policy *p, void ***parts, size_t **sizes, int *n, struct mf_err *err);
void mf_policy_drop(void **parts, size_t *sizes, int n);
/* And back: all parts, in any order. */
int mf_policy_decode(struct mf_policy *p, const void *const *parts, const size_t *sizes, int n, struct mf_err *err);
int mf_policy_from_frame(struct mf_policy *p, const struct mf_frame *part, struct mf_err *err);
void mf_policy_digest(const struct mf_policy *p, char hex[17]);         /* of weights, normaliser, noise in force */
void mf_policy_encoder_digest(const struct mf_policy *p, char hex[17]); /* of what encodings depend on */

#endif
