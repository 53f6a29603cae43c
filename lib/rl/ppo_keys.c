#include "rl/ppo_keys.h"

#include "rl/trainer.h"

const struct mf_bind mf_ppo_binds[] = {
#define PPO(group, key, ...) {#group "." #key, offsetof(struct mf_ppo_opts, key)},
#include "conf/training.inc"
    {0},
};

const struct mf_bind mf_trainer_binds[] = {
    {"device", offsetof(struct mf_trainer_opts, device)},
    {"threads", offsetof(struct mf_trainer_opts, threads)},
    {"lanes", offsetof(struct mf_trainer_opts, lanes)},
    {"precision", offsetof(struct mf_trainer_opts, precision)},
    {"run.seed", offsetof(struct mf_trainer_opts, ppo.seed)},
    {"collect.max_lag", offsetof(struct mf_trainer_opts, max_lag)},
    {"training.freeze_encoder", offsetof(struct mf_trainer_opts, freeze_encoder)},
    {"training.save_every", offsetof(struct mf_trainer_opts, save_every)},
    {"training.save_frozen", offsetof(struct mf_trainer_opts, save_frozen)},
    {0},
};

const struct mf_bind mf_sac_binds[] = {
#define SAC(key, ...) {"sac." #key, offsetof(struct mf_sac_opts, key)},
#include "conf/sac.inc"
    {"advantage.gamma", offsetof(struct mf_sac_opts, gamma)},
    {0},
};

const struct mf_bind mf_noise_binds[] = {
#define NOISE(key, member, ...) {"policy." #key, offsetof(struct mf_noise_opts, member)},
#include "conf/policy.inc"
    {0},
};
