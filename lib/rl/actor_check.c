/* actor_check.c - options of an actor that do not fit each other or its policy. */
#include "rl/actor.h"

/* An episode that the rollout cuts is in no group that counts: this would leave short episodes alone. */
static int check_groups(const struct mf_actor_opts *o, const struct mf_policy_spec *s, struct mf_err *err)
{
    const int C = s->n_action_steps, limit = o->vec.max_steps ? o->vec.max_steps : o->vec.env->max_steps;
    if (o->vec.group <= 1)
        return 0;
    if (o->vec.N % o->vec.group)
        return mf_err_set(err, MF_EUSAGE,
                          "training.num_envs=%d environments are not whole groups of collect.group=%d: set a multiple",
                          o->vec.N, o->vec.group);
    if ((int64_t)o->T * C < limit)
        return mf_err_set(err, MF_EUSAGE,
                          "with collect.group=%d a rollout needs whole episodes: training.num_steps_per_rollout=%d "
                          "decisions of %d control steps are shorter than an episode of %d; set %d or more, or a "
                          "smaller env.max_steps",
                          o->vec.group, o->T, C, limit, (limit + C - 1) / C);
    return 0;
}

int mf_actor_check(const struct mf_actor_opts *o, const struct mf_policy_spec *s, struct mf_err *err)
{
    int rc = check_groups(o, s, err);
    if (rc == 0 && o->reward_scale && s->steer == MF_STEER_SAC)
        return mf_err_set(
            err, MF_EUSAGE, /* of many rounds in a replay buffer each would have another scale */
            "collect.reward_scale=running changes with the rounds, and mf-sac learns from rewards of many: "
            "with policy.steer=sac set collect.reward_scale=none, and sac.reward_shift");
    return rc;
}
