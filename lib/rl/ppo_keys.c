#include "rl/ppo_keys.h"

#include "rl/trainer.h"

const struct mf_bind mf_ppo_binds[] = {
#define PPO(group, key, ...) {#group "." #key, offsetof(struct mf_ppo_opts, key)},
#include "conf/training.inc"
    {0},
};

const struct mf_bind mf_noise_binds[] = {
#define NOISE(key, member, ...) {"policy." #key, offsetof(struct mf_noise_opts, member)},
#include "conf/policy.inc"
    {0},
};
