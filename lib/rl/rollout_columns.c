#include "rl/rollout_columns.h"

#include <stdio.h>

static void add_obs(struct mf_columns *c, struct mf_rollout_ids *id, const struct mf_layout *obs, int steps)
{
    for (int k = 0; k < obs->n; k++) {
        const struct mf_obs *o = &obs->key[k];
        char name[MF_NAME_MAX];
        size_t dim[1 + MF_OBS_RANK] = {(size_t)steps};
        for (int i = 0; i < MF_OBS_RANK; i++)
            dim[1 + i] = (size_t)o->dim[i];
        snprintf(name, sizeof name, "obs/%s", o->name);
        id->obs[k] = mf_columns_add(c, name, o->u8 ? MF_U8 : MF_F32, 1 + mf_obs_rank(o), dim);
    }
}

static void add_policy(struct mf_columns *c, struct mf_rollout_ids *id, const struct mf_policy_spec *s)
{
    const size_t K = (size_t)s->K, A = (size_t)s->action_dim, chunk[] = {(size_t)s->n_action_steps, A},
                 chain[] = {K + 1, (size_t)s->horizon, (size_t)mf_action_width(s)}, each = (size_t)mf_logprob_width(s);
    id->loss_mask = mf_columns_add(c, "loss_mask", MF_U8, 0, NULL);
    if (s->n_critic) {
        id->values = mf_columns_add(c, "prev_values", MF_F32, 0, NULL);
        id->last_values = mf_columns_add_last(c, "last_values", MF_F32);
        id->final_values = mf_columns_add(c, "final_values", MF_F32, 0, NULL);
    }
    if (mf_policy_scores_chain(s)) {
        id->chains = mf_columns_add(c, "chains", MF_F32, 3, chain);
        id->inds = mf_columns_add(c, "denoise_inds", MF_I32, 1, &K);
    } else {
        id->samples = mf_columns_add(c, "samples", MF_F32, 2, chain + 1);
    }
    if (mf_policy_is_fpo(s))
        id->draws = mf_columns_add(c, "draws", MF_U64, 0, NULL);
    const bool chunked = mf_logprob_by_action(s);
    if (s->steer == MF_STEER_SAC) {
        id->begins = mf_columns_add_last(c, "begins", MF_U64);
        id->ends = mf_columns_add_last(c, "ends", MF_U64);
        return;
    }
    id->logprobs = mf_columns_add(c, "prev_logprobs", MF_F32, chunked ? 2 : each > 1, chunked ? chunk : &each);
}

void mf_rollout_columns(struct mf_columns *c, struct mf_rollout_ids *id, const struct mf_policy_spec *policy,
                        const struct mf_layout *obs, int A, bool scaled, bool grouped, bool tasks)
{
    const size_t chunk[] = {policy ? (size_t)policy->n_action_steps : 1, (size_t)A};
    add_obs(c, id, obs, policy ? policy->n_obs_steps : 1);
    id->actions = mf_columns_add(c, "actions", MF_F32, 2, chunk);
    id->rewards = mf_columns_add(c, "rewards", MF_F32, 1, chunk);
    id->terminated = mf_columns_add(c, "terminated", MF_U8, 0, NULL);
    id->truncated = mf_columns_add(c, "truncated", MF_U8, 0, NULL);
    id->valid = mf_columns_add(c, "valid", MF_U8, 0, NULL);
    id->success = mf_columns_add(c, "success", MF_U8, 0, NULL);
    id->n_exec = mf_columns_add(c, "n_exec", MF_I32, 0, NULL);
    if (policy)
        add_policy(c, id, policy);
    if (policy && scaled)
        id->scaled = mf_columns_add(c, "rewards_scaled", MF_F32, 0, NULL);
    if (tasks)
        id->task = mf_columns_add(c, "task", MF_I32, 0, NULL);
    if (grouped)
        id->group = mf_columns_add(c, "group", MF_I32, 0, NULL);
}

size_t mf_rollout_bytes(const struct mf_policy_spec *policy, size_t T, bool with_advantages)
{
    struct mf_columns c;
    struct mf_rollout_ids id;
    mf_columns_init(&c, T, 1);
    mf_rollout_columns(&c, &id, policy, &policy->net.obs, policy->action_dim, false, false, false);
    if (with_advantages) {
        mf_columns_add(&c, "advantages", MF_F32, 0, NULL);
        mf_columns_add(&c, "returns", MF_F32, 0, NULL);
    }
    return mf_columns_env_bytes(&c);
}

size_t mf_rollout_obs_bytes(const struct mf_policy_spec *policy)
{
    struct mf_columns c;
    struct mf_rollout_ids id;
    mf_columns_init(&c, 1, 1);
    add_obs(&c, &id, &policy->net.obs, policy->n_obs_steps);
    return mf_columns_env_bytes(&c);
}
