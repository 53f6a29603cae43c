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

/* Which part of the spec a key says; widths lie behind their count. */
#define FIELD(key, member, sampling)                                                                                   \
    {"policy." key, offsetof(struct mf_policy_spec, member), sizeof((struct mf_policy_spec *)NULL)->member, sampling}
#define WIDTHS(key, member, sampling)                                                                                  \
    {"policy." key, offsetof(struct mf_policy_spec, member), sizeof(int) * (1 + MF_DIMS_MAX), sampling}
static const struct field {
    const char *key;
    size_t at, size;
    bool sampling; /* may differ from run to run with the same network */
} fields[] = {
    FIELD("network", net.net, false),
    WIDTHS("hidden", net.n_hidden, false),
    FIELD("activation", net.act, false),
    FIELD("time_dim", net.time_dim, false),
    WIDTHS("cond_hidden", net.n_cond, false),
    FIELD("horizon", horizon, false),
    FIELD("n_obs_steps", n_obs_steps, false),
    FIELD("convention", convention, false),
    FIELD("n_action_steps", n_action_steps, true),
    FIELD("action_offset", action_offset, true),
    FIELD("num_inference_steps", K, true),
    FIELD("noise_method", noise_method, true),
    FIELD("denoise", denoise, true),
    FIELD("objective", objective, true),
    FIELD("learned_noise", learned_noise, true),
    FIELD("mean_limit", mean_limit, true),
    FIELD("noise_clip", noise_clip, true),
    FIELD("final_limit", final_limit, true),
    WIDTHS("critic_hidden", n_critic, true),
    WIDTHS("noise_hidden", n_noise, true),
};

/* Put the keys that were set over *s. Those that shape the network must agree; where `fixed`, all must. */
static int overlay(struct mf_policy_spec *s, const char *name, bool fixed, const struct mf_policy_spec *asked,
                   const struct mf_conf *conf, struct mf_err *err)
{
    const struct mf_policy_spec old = *s;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *f = &fields[i];
        if (!mf_conf_was_set(conf, f->key))
            continue;
        memcpy((char *)s + f->at, (const char *)asked + f->at, f->size);
        if (fixed || !f->sampling) {
            int rc = mf_policy_spec_agree(s, "the configuration", &old, name, err);
            if (rc)
                return rc;
        }
    }
    return 0;
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
    if (rc || (rc = same_world(s, &asked, err)))
        return rc;
    if (s->n_critic == 0) { /* a clone has neither critic nor noise net: the keys say what is grown */
        s->n_critic = asked.n_critic;
        memcpy(s->critic, asked.critic, sizeof s->critic);
    }
    if (s->n_noise == 0) {
        s->n_noise = asked.n_noise;
        memcpy(s->noise, asked.noise, sizeof s->noise);
    }
    return overlay(s, "the checkpoint", false, &asked, conf, err);
}

int mf_policy_spec_holds(const struct mf_policy_spec *stream, const struct mf_conf *conf,
                         const struct mf_policy_opts *o, struct mf_err *err)
{
    struct mf_policy_spec asked, s = *stream;
    int rc = mf_policy_spec_make(&asked, o, s.n_obs_keys, s.obs, s.action_dim, err);
    return rc ? rc : overlay(&s, "the stream's head", true, &asked, conf, err);
}
