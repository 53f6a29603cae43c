#include "flow/spec.h"

#include <stdio.h>
#include <string.h>

static int widths(int *n, int to[MF_DIMS_MAX], const struct mf_ints *from, const char *key, struct mf_err *err)
{
    if (from->n > MF_DIMS_MAX)
        return mf_err_set(err, MF_EUSAGE, "%s has %d layers, of which there may be %d", key, from->n, MF_DIMS_MAX);
    *n = from->n;
    for (int i = 0; i < from->n; i++)
        to[i] = (int)from->v[i];
    return 0;
}

int mf_policy_spec_make(struct mf_policy_spec *s, const struct mf_policy_opts *o, int n,
                        const struct mf_policy_obs *obs, int A, struct mf_err *err)
{
    *s = (struct mf_policy_spec){
        .n_obs_keys = n,
        .n_obs_steps = (int)o->n_obs_steps,
        .action_dim = A,
        .horizon = (int)o->horizon,
        .n_action_steps = (int)o->n_action_steps,
        .action_offset = (int)o->action_offset,
        .K = (int)o->num_inference_steps,
        .convention = (enum mf_convention)o->convention,
        .noise_method = (enum mf_noise_method)(MF_FLOW_NOISE + o->noise_method),
        .denoise = (enum mf_denoise)o->denoise,
        .objective = (enum mf_objective)o->objective,
        .learned_noise = o->learned_noise,
        .mean_limit = (float)o->mean_limit,
        .noise_clip = (float)o->noise_clip,
        .final_limit = (float)o->final_limit,
        .net = {.act = o->activation ? MF_ACT_MISH : MF_ACT_RELU, .time_dim = (int)o->time_dim},
    };
    if (n > (int)(sizeof s->obs / sizeof *s->obs))
        return mf_err_set(err, MF_EUSAGE, "a policy sees at most %d observations, not %d",
                          (int)(sizeof s->obs / sizeof *s->obs), n);
    for (int i = 0; i < n; i++) {
        s->obs[i] = obs[i];
        s->obs_dim += obs[i].dim;
    }
    return mf_net_find(&s->net.net, o->network, err) ||
                   widths(&s->net.n_hidden, s->net.hidden, &o->hidden, "policy.hidden", err) ||
                   widths(&s->net.n_cond, s->net.cond, &o->cond_hidden, "policy.cond_hidden", err) ||
                   widths(&s->n_critic, s->critic, &o->critic_hidden, "policy.critic_hidden", err) ||
                   widths(&s->n_noise, s->noise, &o->noise_hidden, "policy.noise_hidden", err)
               ? err->code
               : 0;
}

/* Is the key set, and does the checkpoint hold another value than it? */
static int same(const struct mf_conf *conf, const char *key, bool equal, struct mf_err *err)
{
    if (equal || !mf_conf_was_set(conf, key))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "%s=%s contradicts the checkpoint, whose network was made otherwise; leave it out", key,
                      mf_conf_text(conf, key));
}

static bool same_widths(int n, const int *a, int m, const int *b)
{
    return n == m && !memcmp(a, b, (size_t)n * sizeof *a);
}

static int same_network(const struct mf_policy_spec *a, const struct mf_policy_spec *b, const struct mf_conf *conf,
                        struct mf_err *err)
{
    const struct mf_net_spec *x = &a->net, *y = &b->net;
    return same(conf, "policy.network", x->net == y->net, err) ||
           same(conf, "policy.hidden", same_widths(x->n_hidden, x->hidden, y->n_hidden, y->hidden), err) ||
           same(conf, "policy.cond_hidden", same_widths(x->n_cond, x->cond, y->n_cond, y->cond), err) ||
           same(conf, "policy.activation", x->act == y->act, err) ||
           same(conf, "policy.time_dim", x->time_dim == y->time_dim, err) ||
           same(conf, "policy.horizon", a->horizon == b->horizon, err) ||
           same(conf, "policy.n_obs_steps", a->n_obs_steps == b->n_obs_steps, err) ||
           same(conf, "policy.convention", a->convention == b->convention, err);
}

static int same_world(const struct mf_policy_spec *a, const struct mf_policy_spec *b, struct mf_err *err)
{
    if (a->action_dim != b->action_dim)
        return mf_err_set(err, MF_EUSAGE, "the checkpoint acts with %d numbers, the environment wants %d",
                          a->action_dim, b->action_dim);
    for (int i = 0; i < a->n_obs_keys || i < b->n_obs_keys; i++) {
        const struct mf_policy_obs *x = i < a->n_obs_keys ? &a->obs[i] : &(struct mf_policy_obs){"nothing", 0};
        const struct mf_policy_obs *y = i < b->n_obs_keys ? &b->obs[i] : &(struct mf_policy_obs){"nothing", 0};
        if (strcmp(x->name, y->name) || x->dim != y->dim)
            return mf_err_set(err, MF_EUSAGE,
                              "observation %d of the checkpoint is %s (%d), of the environment it is %s (%d)", i,
                              x->name, x->dim, y->name, y->dim);
    }
    return 0;
}

int mf_policy_spec_adopt(struct mf_policy_spec *s, const struct mf_loaded *l, const struct mf_conf *conf,
                         const struct mf_policy_opts *o, int n, const struct mf_policy_obs *obs, int A,
                         struct mf_err *err)
{
    struct mf_policy_spec asked;
    int rc = mf_policy_spec_make(&asked, o, n, obs, A, err);
    *s = *mf_loaded_spec(l);
    if (rc || (rc = same_world(s, &asked, err)) || same_network(s, &asked, conf, err))
        return rc ? rc : err->code;
#define TAKE(key, field)                                                                                               \
    if (mf_conf_was_set(conf, "policy." key))                                                                          \
    s->field = asked.field
    TAKE("n_action_steps", n_action_steps);
    TAKE("action_offset", action_offset);
    TAKE("num_inference_steps", K);
    TAKE("noise_method", noise_method);
    TAKE("denoise", denoise);
    TAKE("objective", objective);
    TAKE("learned_noise", learned_noise);
    TAKE("mean_limit", mean_limit);
    TAKE("noise_clip", noise_clip);
    TAKE("final_limit", final_limit);
#undef TAKE
    if (mf_conf_was_set(conf, "policy.critic_hidden") || s->n_critic == 0) {
        s->n_critic = asked.n_critic;
        memcpy(s->critic, asked.critic, sizeof s->critic);
    }
    if (mf_conf_was_set(conf, "policy.noise_hidden") || s->n_noise == 0) {
        s->n_noise = asked.n_noise;
        memcpy(s->noise, asked.noise, sizeof s->noise);
    }
    return 0;
}
