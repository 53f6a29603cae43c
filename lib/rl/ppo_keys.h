/* ppo_keys.h - rows of a learner's keys for a stage's tables. */
#ifndef MF_RL_PPO_KEYS_H
#define MF_RL_PPO_KEYS_H

#include "conf/conf.h"

extern const struct mf_bind mf_ppo_binds[];     /* of struct mf_ppo_opts, but for its seed */
extern const struct mf_bind mf_sac_binds[];     /* of struct mf_sac_opts, the same */
extern const struct mf_bind mf_noise_binds[];   /* of struct mf_noise_opts */
extern const struct mf_bind mf_trainer_binds[]; /* of struct mf_trainer_opts, but for those two; and PPO's seed */

#endif
