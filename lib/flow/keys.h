/* keys.h - the policy.* keys of the configuration, as every stage that has a policy binds them.
 *
 * Put MF_POLICY_BINDS(struct mine, policy) into the stage's table, where
 * `policy` is its struct mf_policy_keys.
 */
#ifndef MF_FLOW_KEYS_H
#define MF_FLOW_KEYS_H

#include "conf/conf.h"
#include "flow/policy.h"

struct mf_policy_keys {
    const char *network;
    struct mf_ints hidden, cond_hidden, critic_hidden, noise_hidden;
    int activation, convention, noise_method, denoise, objective, noise_decay_type;
    int64_t time_dim, horizon, n_obs_steps, n_action_steps, action_offset, num_inference_steps;
    int64_t noise_decay_steps, noise_anneal_steps;
    bool learned_noise;
    double min_noise_std, max_noise_std, noise_start, noise_end, mean_limit, noise_clip, final_limit;
};

#define MF_POLICY_BIND(T, f, name) {"policy." #name, offsetof(T, f.name)}
/* What shapes the network alone. */
#define MF_NETWORK_BINDS(T, f) \
    MF_POLICY_BIND(T, f, network), MF_POLICY_BIND(T, f, hidden), MF_POLICY_BIND(T, f, activation), \
        MF_POLICY_BIND(T, f, time_dim), MF_POLICY_BIND(T, f, cond_hidden), MF_POLICY_BIND(T, f, horizon), \
        MF_POLICY_BIND(T, f, n_obs_steps), MF_POLICY_BIND(T, f, n_action_steps), MF_POLICY_BIND(T, f, action_offset), \
        MF_POLICY_BIND(T, f, num_inference_steps), MF_POLICY_BIND(T, f, convention)
#define MF_POLICY_BINDS(T, f) \
    MF_NETWORK_BINDS(T, f), MF_POLICY_BIND(T, f, critic_hidden), MF_POLICY_BIND(T, f, noise_hidden), \
        MF_POLICY_BIND(T, f, noise_method), MF_POLICY_BIND(T, f, denoise), MF_POLICY_BIND(T, f, objective), \
        MF_POLICY_BIND(T, f, learned_noise), MF_POLICY_BIND(T, f, min_noise_std), MF_POLICY_BIND(T, f, max_noise_std), \
        MF_POLICY_BIND(T, f, noise_decay_type), MF_POLICY_BIND(T, f, noise_decay_steps), \
        MF_POLICY_BIND(T, f, noise_start), MF_POLICY_BIND(T, f, noise_end), MF_POLICY_BIND(T, f, noise_anneal_steps), \
        MF_POLICY_BIND(T, f, mean_limit), MF_POLICY_BIND(T, f, noise_clip), MF_POLICY_BIND(T, f, final_limit)

/* All of *s but what the environment or the data says: obs, obs_dim, action_dim (left as they are). */
int mf_policy_spec_from_keys(struct mf_policy_spec *s, const struct mf_policy_keys *k, struct mf_err *err);

/* noise_low and noise_high after so many control steps and iterations: mf_policy_set_noise. */
void mf_policy_noise_at(const struct mf_policy_keys *k, int64_t global_step, int64_t iter, double *low, double *high);

#endif
