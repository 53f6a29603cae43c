/* policy.h - a flow policy: its spec, its weights and its normaliser. */
#ifndef MF_FLOW_POLICY_H
#define MF_FLOW_POLICY_H

#include "base/memory.h"
#include "flow/spec.h"
#include "graph/graph.h"

struct mf_loaded;

struct mf_policy {
    struct mf_policy_spec spec;
    struct mf_params params; /* network.*, critic.*, explore_noise_net.* */
    /* normalised = x*scale + offset, of each feature (mf_layout_features). The network normalises pictures itself. */
    float *obs_scale, *obs_offset;
    float *action_scale, *action_offset; /* (action_dim) */
    bool has_normalizer;
    struct mf_loaded *base;             /* owned: a file in which some frozen parameters are; NULL: none */
    char frozen[17];                    /* digest of those of its checkpoint (mf_loaded_outline); "": none */
    int64_t version, iter, global_step; /* of the weights; rounds consumed; control steps so far */
    int64_t saved;                      /* newest version that a restarted learner can start from */
    double noise_low, noise_high;       /* current: flow_noise's bounds of sigma, or the level of sde and cps in both */
};

int mf_policy_init(struct mf_policy *p, const struct mf_policy_spec *spec,
                   struct mf_err *err); /* params allocated, zero */
/* An outline: its params have names and shapes, but no values. */
int mf_policy_outline(struct mf_policy *p, const struct mf_policy_spec *spec, struct mf_err *err);
void mf_policy_fresh(struct mf_policy *p, uint64_t seed); /* initial weights, identity normaliser */
void mf_policy_plain(struct mf_policy *p);                /* identity normaliser */
void mf_policy_release(struct mf_policy *p);
/* The normaliser of the state in its prompts; NULL scale: they have none. Valid as long as p is. */
struct mf_affine mf_policy_state(const struct mf_policy *p);
void mf_policy_memory(const struct mf_policy *p, struct mf_memory *to); /* adds its weights; also of an outline */

/* Sets bounds of sigma (or the level in both); explore_noise_net.logvar_{min,max} follow. */
void mf_policy_set_noise(struct mf_policy *p, double low, double high);
float mf_policy_logvar(double std); /* log(std^2) */

/* mf_normalize of n rows of O. */
void mf_policy_normalize(const struct mf_policy *p, size_t n, const float *obs, float *out);
/* The same for the floats of one key of one step, in place; an array that is no key of the policy stays as it is. */
void mf_policy_normalize_key(const struct mf_policy *p, const char *key, float *obs);

/* The groups that stay as they are in training, as bits: those of a steered flow; the encoder, if it is to. */
unsigned mf_policy_frozen(const struct mf_policy_spec *s, bool freeze_encoder);
/* A warning where the encoder is to stay as it is, and there is none. */
void mf_policy_warn_frozen(const struct mf_policy *p, bool freeze_encoder, void (*warn)(const char *text));

/* The groups that an average (EMA) covers, as bits: the weights that sampling uses. */
enum { MF_AVERAGED = 1 << MF_GROUP_POLICY | 1 << MF_GROUP_ENCODER | 1 << MF_GROUP_STEER };
static inline bool mf_is_averaged(enum mf_group group)
{
    return MF_AVERAGED >> group & 1;
}
/* The same of parameter i, unless it is frozen. */
static inline bool mf_has_average(const struct mf_params *ps, int i)
{
    return mf_is_averaged(ps->p[i].group) && mf_param_trained(ps, i);
}

#endif
