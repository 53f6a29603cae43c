/* spec_keys.h - a policy's spec from the policy.* keys, as every stage that has a policy binds them.
 *
 * Put MF_POLICY_BINDS(struct mine, policy) into the stage's table, where
 * `policy` is its struct mf_policy_opts.
 */
#ifndef MF_FLOW_SPEC_KEYS_H
#define MF_FLOW_SPEC_KEYS_H

#include "base/err.h"
#include "conf/conf.h"
#include "flow/spec.h"

struct mf_loaded;

struct mf_policy_opts {
    const char *network;
    struct mf_names obs_keys; /* read by who finds the observations */
    struct mf_ints hidden, cond_hidden, down_dims, critic_hidden, noise_hidden;
    int activation, convention, target_time, noise_method, denoise, objective;
    int64_t time_dim, horizon, n_obs_steps, n_action_steps, action_offset, num_inference_steps;
    int64_t n_layer, n_head, n_emb, encoder_output_dim, kernel_size, n_groups;
    int value_pool;
    bool learned_noise, add_value_head, qkv_bias, qk_norm, legacy_rms, pointwise, use_pc_color;
    double mean_limit, noise_clip, final_limit;
};

/* clang-format off */
#define MF_POLICY_BIND(T, f, name) {"policy." #name, offsetof(T, f.name)}
#define MF_POLICY_BINDS(T, f)                                                                       \
    MF_POLICY_BIND(T, f, network), MF_POLICY_BIND(T, f, hidden), MF_POLICY_BIND(T, f, activation),  \
    MF_POLICY_BIND(T, f, time_dim), MF_POLICY_BIND(T, f, cond_hidden),                              \
    MF_POLICY_BIND(T, f, critic_hidden), MF_POLICY_BIND(T, f, noise_hidden),                        \
    MF_POLICY_BIND(T, f, horizon), MF_POLICY_BIND(T, f, obs_keys), MF_POLICY_BIND(T, f, n_obs_steps), \
    MF_POLICY_BIND(T, f, n_action_steps), MF_POLICY_BIND(T, f, action_offset),                      \
    MF_POLICY_BIND(T, f, num_inference_steps), MF_POLICY_BIND(T, f, convention),                    \
    MF_POLICY_BIND(T, f, target_time),                                                              \
    MF_POLICY_BIND(T, f, noise_method), MF_POLICY_BIND(T, f, denoise),                              \
    MF_POLICY_BIND(T, f, objective), MF_POLICY_BIND(T, f, learned_noise),                           \
    MF_POLICY_BIND(T, f, n_layer), MF_POLICY_BIND(T, f, n_head), MF_POLICY_BIND(T, f, n_emb),       \
    MF_POLICY_BIND(T, f, encoder_output_dim), MF_POLICY_BIND(T, f, value_pool),                     \
    MF_POLICY_BIND(T, f, qkv_bias), MF_POLICY_BIND(T, f, qk_norm), MF_POLICY_BIND(T, f, legacy_rms), \
    MF_POLICY_BIND(T, f, down_dims), MF_POLICY_BIND(T, f, kernel_size), MF_POLICY_BIND(T, f, n_groups), \
    MF_POLICY_BIND(T, f, pointwise), MF_POLICY_BIND(T, f, use_pc_color),                            \
    MF_POLICY_BIND(T, f, add_value_head),                                                           \
    MF_POLICY_BIND(T, f, mean_limit), MF_POLICY_BIND(T, f, noise_clip), MF_POLICY_BIND(T, f, final_limit)
/* clang-format on */

/* The spec of these keys for the observations and A actions of an environment or of demonstrations. */
int mf_policy_spec_make(struct mf_policy_spec *s, const struct mf_policy_opts *o, const struct mf_layout *obs, int A,
                        struct mf_err *err);

/* *s, which `name` says, with the keys that were set on top. MF_EUSAGE, with both values, where one of them or the
 * environment contradicts what shapes the network. */
int mf_policy_spec_overlay(struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                           const struct mf_conf *conf, struct mf_err *err);
/* The checkpoint's spec, with the keys that were set on top. */
int mf_policy_spec_adopt(struct mf_policy_spec *s, const struct mf_loaded *l, const struct mf_conf *conf,
                         const struct mf_policy_opts *o, const struct mf_layout *obs, int A, struct mf_err *err);
/* MF_EUSAGE, with both values, where a key that was set contradicts the spec that came with the stream. */
int mf_policy_spec_holds(const struct mf_policy_spec *stream, const struct mf_conf *conf,
                         const struct mf_policy_opts *o, struct mf_err *err);
/* Can a learner with these keys work with what makes this stream? MF_EFORMAT or MF_EUSAGE: why not. */
int mf_policy_head_fits(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err);
/* Does it carry encodings in place of observations? MF_EUSAGE where the encoder is to learn. */
int mf_policy_head_encoded(const struct mf_frame *head, const struct mf_conf *conf, bool *encoded, struct mf_err *err);

#endif
