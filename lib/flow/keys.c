#include "flow/keys.h"

static int widths(int *n, int to[MF_DIMS_MAX], const struct mf_ints *from, const char *key, struct mf_err *err)
{
    if (from->n > MF_DIMS_MAX)
        return mf_err_set(err, MF_EUSAGE, "%s has %d layers, of which there may be %d", key, from->n, MF_DIMS_MAX);
    *n = from->n;
    for (int i = 0; i < from->n; i++)
        to[i] = (int)from->v[i];
    return 0;
}

int mf_policy_spec_from_keys(struct mf_policy_spec *s, const struct mf_policy_keys *k, struct mf_err *err)
{
    s->n_obs_steps = (int)k->n_obs_steps;
    s->horizon = (int)k->horizon;
    s->n_action_steps = (int)k->n_action_steps;
    s->action_offset = (int)k->action_offset;
    s->K = (int)k->num_inference_steps;
    s->convention = (enum mf_convention)k->convention;
    s->noise_method = (enum mf_noise_method)(MF_FLOW_NOISE + k->noise_method);
    s->denoise = (enum mf_denoise)k->denoise;
    s->objective = (enum mf_objective)k->objective;
    s->learned_noise = k->learned_noise;
    s->mean_limit = (float)k->mean_limit;
    s->noise_clip = (float)k->noise_clip;
    s->final_limit = (float)k->final_limit;
    s->net.act = k->activation ? MF_ACT_MISH : MF_ACT_RELU;
    s->net.time_dim = (int)k->time_dim;
    return mf_net_find(&s->net.net, k->network, err) ||
                   widths(&s->net.n_hidden, s->net.hidden, &k->hidden, "policy.hidden", err) ||
                   widths(&s->net.n_cond, s->net.cond, &k->cond_hidden, "policy.cond_hidden", err) ||
                   widths(&s->n_critic, s->critic, &k->critic_hidden, "policy.critic_hidden", err) ||
                   widths(&s->n_noise, s->noise, &k->noise_hidden, "policy.noise_hidden", err)
               ? err->code
               : 0;
}

void mf_policy_noise_at(const struct mf_policy_keys *k, int64_t global_step, int64_t iter, double *low, double *high)
{
    if (MF_FLOW_NOISE + k->noise_method == MF_FLOW_NOISE) {
        *low = k->min_noise_std;
        *high = mf_noise_level((enum mf_level_schedule)k->noise_decay_type, *low, k->max_noise_std,
                               (double)global_step / (double)k->noise_decay_steps);
    } else {
        double p = k->noise_anneal_steps ? (double)iter / (double)k->noise_anneal_steps : 0;
        *low = *high = mf_noise_level(MF_LINEAR, k->noise_end, k->noise_start, p);
    }
}
