/* spec.h - the sizes and settings of a flow policy's network, sampling and scoring, as stored in a head's spec and in a
 * checkpoint's metadata.
 *
 *   A action dim  H horizon  C executed actions  K denoising steps  D = H*W
 *   O = n_obs_steps * obs.dim  W numbers of an action in the network, A where policy.action_width is 0
 */
#ifndef MF_FLOW_SPEC_H
#define MF_FLOW_SPEC_H

#include "base/err.h"
#include "nn/net.h"
#include "stream/frame.h"

enum { MF_STEPS_MAX = 128, MF_FPO_DRAWS = 64 }; /* denoising steps, and draws of FPO, at most */

enum mf_convention { MF_NOISE0, MF_NOISE1 };            /* t = 0 is noise, or t = 1 */
enum mf_target_time { MF_TARGET_STEP, MF_TARGET_ZERO }; /* the network's input for the step size: 1/K, or 0 */
enum mf_noise_method {
    MF_FLOW_ODE,
    MF_FLOW_NOISE,
    MF_FLOW_SDE,
    MF_FLOW_CPS
};                                       /* spec words: none flow_noise flow_sde flow_cps */
enum mf_denoise { MF_JOINT, MF_SINGLE }; /* all steps stochastic, or one drawn per sample */
enum mf_objective { MF_CHAIN_MEAN, MF_CHAIN_SUM, MF_STEP, MF_STEP_MEAN, MF_FPO, MF_FPO_EACH };

enum mf_steer { MF_STEER_NONE, MF_STEER_PPO, MF_STEER_SAC };
enum mf_steer_logprob { MF_STEER_EXECUTED, MF_STEER_ALL };

struct mf_policy_spec {
    struct mf_layout obs; /* of one observation step */
    int action_dim;
    struct mf_net_spec net;
    char env[64];       /* the environment of its training, "": unknown; informative only */
    char tokenizer[64]; /* digest of the tokenizer of its observation "tokens"; "": unknown */
#define SPEC(key, name, member, learned, type, ...) MF_FIELD_##type(member)
#define STEP(key, member, type, ...)                MF_FIELD_##type(member)
#define PROMPT(key, member, type, ...)              MF_FIELD_##type(member)
#define PICTURE(key, member, type, ...)             MF_FIELD_##type(member)
#define FPO(key, member, type, ...)                 MF_FIELD_##type(member)
#define STEER(key, member, type, ...)               MF_FIELD_##type(member)
#define WIDTHS(key, member, ...)                    MF_FIELD_INTS(member)
#include "conf/policy.inc"
};

/* spec <-> a head frame's "spec" map. */
void mf_policy_spec_to_head(const struct mf_policy_spec *s, struct mf_frame *head);
int mf_policy_spec_from_head(struct mf_policy_spec *s, const struct mf_frame *head, struct mf_err *err);
/* MF_EUSAGE, with both values, for the first field that differs. */
int mf_policy_spec_agree(const struct mf_policy_spec *a, const char *a_name, const struct mf_policy_spec *b,
                         const char *b_name, struct mf_err *err);

/* A warning for whatever a fresh policy would read as what it is not: pixels and ids of words as numbers, colors as
 * meters. */
void mf_policy_spec_warn(const struct mf_policy_spec *s, void (*warn)(const char *text));
/* Does prev_logprobs score the denoising steps? Rollouts then carry the chain, else one `sample` (H, A) a decision. */
bool mf_policy_scores_chain(const struct mf_policy_spec *s);
bool mf_policy_is_fpo(const struct mf_policy_spec *s);
/* E of prev_logprobs in the stream: 1, C*A, or a number for each of FPO's draws */
/* Numbers of an action in the network: the environment's action_dim are the first. */
int mf_action_width(const struct mf_policy_spec *s);
int mf_logprob_width(const struct mf_policy_spec *s);
/* Is it (C, A), by executed action? */
bool mf_logprob_by_action(const struct mf_policy_spec *s);

#endif
