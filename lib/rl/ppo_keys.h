/* ppo_keys.h - the training.* and advantage.* keys of a learner, as a stage's table binds them.
 *
 * Put MF_PPO_BINDS(struct mine, opts) into it, where `opts` is its struct mf_ppo_opts, and MF_NOISE_BINDS likewise.
 */
#ifndef MF_RL_PPO_KEYS_H
#define MF_RL_PPO_KEYS_H

#include <stddef.h>

/* clang-format off */
#define MF_PPO_BIND(T, f, group, name) {#group "." #name, offsetof(T, f.name)}
#define MF_PPO_BINDS(T, f)                                                                                          \
    MF_PPO_BIND(T, f, training, total_timesteps), MF_PPO_BIND(T, f, training, num_epochs),                          \
    MF_PPO_BIND(T, f, training, batch_size), MF_PPO_BIND(T, f, training, repeat_samples),                           \
    MF_PPO_BIND(T, f, training, clip_range), MF_PPO_BIND(T, f, training, dual_clip),                                \
    MF_PPO_BIND(T, f, training, logprob_clamp), MF_PPO_BIND(T, f, training, level),                                 \
    MF_PPO_BIND(T, f, training, loss_agg), MF_PPO_BIND(T, f, training, value_coef),                                 \
    MF_PPO_BIND(T, f, training, value_clip), MF_PPO_BIND(T, f, training, huber_delta),                              \
    MF_PPO_BIND(T, f, training, entropy_coef), MF_PPO_BIND(T, f, training, target_kl),                              \
    MF_PPO_BIND(T, f, training, learning_rate), MF_PPO_BIND(T, f, training, critic_learning_rate),                  \
    MF_PPO_BIND(T, f, training, noise_learning_rate), MF_PPO_BIND(T, f, training, lr_schedule),                     \
    MF_PPO_BIND(T, f, training, weight_decay), MF_PPO_BIND(T, f, training, max_grad_norm),                          \
    MF_PPO_BIND(T, f, training, clip), MF_PPO_BIND(T, f, training, critic_warmup_steps),                            \
    MF_PPO_BIND(T, f, training, recompute_logprobs), MF_PPO_BIND(T, f, training, ema_decay),                        \
    MF_PPO_BIND(T, f, training, proximal),                                                                          \
    MF_PPO_BIND(T, f, advantage, normalize_advantages), MF_PPO_BIND(T, f, advantage, normalize_over)
#define MF_NOISE_BINDS(T, f)                                                                                        \
    {"policy.min_noise_std", offsetof(T, f.min_std)}, {"policy.max_noise_std", offsetof(T, f.max_std)},             \
    {"policy.noise_decay_type", offsetof(T, f.decay_type)},                                                         \
    {"policy.noise_decay_steps", offsetof(T, f.decay_steps)}, {"policy.noise_start", offsetof(T, f.noise_start)},   \
    {"policy.noise_end", offsetof(T, f.noise_end)}, {"policy.noise_anneal_steps", offsetof(T, f.anneal_steps)}
/* clang-format on */

#endif
