#include "flow/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "flow/checkpoint.h"
#include "flow/fields.h"
#include "flow/score.h"
#include "nn/encoder.h"
#include "nn/mlp.h"

static int check(const struct mf_policy_spec *s, struct mf_err *err)
{
    char x[MF_SPEC_TEXT], y[MF_SPEC_TEXT];
    bool joint = s->denoise == MF_JOINT, step = s->objective == MF_STEP;
    if (s->obs.dim < 1 || s->n_obs_steps < 1 || s->action_dim < 1 || s->horizon < 1 || s->K < 1)
        return mf_err_set(err, MF_EUSAGE,
                          "a policy needs observations, actions, a horizon and denoising steps of at least 1, not "
                          "%d numbers, n_obs_steps %d, action_dim %d, horizon %d, num_inference_steps %d",
                          s->obs.dim, s->n_obs_steps, s->action_dim, s->horizon, s->K);
    if (mf_action_width(s) < s->action_dim)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.action_width=%d is less than the %d numbers of an action of the environment",
                          s->net.action_width, s->action_dim);
    if (s->K > MF_STEPS_MAX)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.num_inference_steps=%d is more than the %d steps that a chain may have", s->K,
                          MF_STEPS_MAX);
    if (s->n_action_steps < 1 || s->action_offset < 0 || s->action_offset + s->n_action_steps > s->horizon)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.n_action_steps=%d from policy.action_offset=%d do not lie within policy.horizon=%d",
                          s->n_action_steps, s->action_offset, s->horizon);
    if (mf_policy_scores_chain(s) && joint == step)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.objective=%s does not go with policy.denoise=%s: step scores the one drawn step of "
                          "single, the other objectives score the whole chain of joint",
                          mf_spec_value(s, "objective", x), mf_spec_value(s, "denoise", y));
    if (s->steer && mf_policy_is_fpo(s))
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.objective=%s scores the flow, and policy.steer=%s the latent actor of a frozen flow: leave "
            "one of the two out",
            mf_spec_value(s, "objective", x), mf_spec_value(s, "steer", y));
    if (s->steer && s->noise_method != MF_FLOW_ODE)
        return mf_err_set(err, MF_EUSAGE, "the flow under policy.steer=%s samples without noise, not by %s",
                          mf_spec_value(s, "steer", x), mf_spec_value(s, "noise_method", y));
    if (s->steer && !s->n_steer_hidden)
        return mf_err_set(err, MF_EUSAGE, "policy.steer_hidden=[] is no network: it needs a layer, as [256,256]");
    if (s->learned_noise && s->noise_method != MF_FLOW_NOISE)
        return mf_err_set(err, MF_EUSAGE, "policy.learned_noise=true needs policy.noise_method=flow_noise, not %s",
                          mf_spec_value(s, "noise_method", x));
    if (s->noise_method == MF_FLOW_CPS && !joint && s->K < 2)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.num_inference_steps=%d: the last step of policy.noise_method=flow_cps has no noise, "
                          "so policy.denoise=single needs at least 2",
                          s->K);
    if (s->n_critic && !s->net.net->value && mf_residual_check("policy.critic_hidden", s->n_critic, s->critic, err))
        return err->code;
    if (mf_encoder_check(&s->net, err))
        return err->code;
    return s->net.net->check(&s->net, err);
}

/* Each size may be valid while their products overflow. */
static int check_products(const struct mf_policy_spec *s, struct mf_err *err)
{
    const int64_t D = (int64_t)s->horizon * mf_action_width(s);
    int64_t numbers = 0; /* of one step, pictures unpacked */
    for (int i = 0; i < s->obs.n; i++)
        numbers += mf_obs_count(&s->obs.key[i]);
    const int64_t O = s->n_obs_steps * numbers;
    if (O <= INT32_MAX / 2 && D <= INT32_MAX / 2 / (MF_STEPS_MAX + 1))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "policy.n_obs_steps=%d times %jd numbers of an observation, or policy.horizon=%d times %d of an "
                      "action, exceed the maximum size of a policy",
                      s->n_obs_steps, (intmax_t)numbers, s->horizon, mf_action_width(s));
}

int mf_policy_outline(struct mf_policy *p, const struct mf_policy_spec *spec, struct mf_err *err)
{
    *p = (struct mf_policy){.spec = *spec};
    struct mf_policy_spec *s = &p->spec;
    s->net.encoder = s->net.encoder ? s->net.encoder : &mf_encoder_none;
    s->net.obs = s->obs;
    s->net.n_obs_steps = s->n_obs_steps;
    s->net.horizon = s->horizon;
    if (check_products(s, err))
        return err->code;
    s->net.O = s->n_obs_steps * s->obs.dim;
    s->net.D = s->horizon * mf_action_width(s);
    int rc = check(s, err);
    if (rc)
        return rc;

    mf_score_params(p);

    void *norm = NULL;
    const int features = mf_layout_features(&s->obs);
    size_t n = 2 * (size_t)(features + s->action_dim);
    if ((rc = mf_alloc(&norm, n * sizeof(float), "the normaliser", err))) {
        mf_policy_release(p);
        return rc;
    }
    p->obs_scale = norm;
    p->obs_offset = p->obs_scale + features;
    p->action_scale = p->obs_offset + features;
    p->action_offset = p->action_scale + s->action_dim;
    return 0;
}

int mf_policy_init(struct mf_policy *p, const struct mf_policy_spec *spec, struct mf_err *err)
{
    int rc = mf_policy_outline(p, spec, err);
    if (!rc && (rc = mf_params_alloc(&p->params, err)))
        mf_policy_release(p);
    return rc;
}

void mf_policy_fresh(struct mf_policy *p, uint64_t seed)
{
    mf_params_fresh(&p->params, seed);
    mf_policy_set_noise(p, p->noise_low, p->noise_high);
    mf_policy_plain(p);
}

void mf_policy_plain(struct mf_policy *p)
{
    for (int i = 0; i < mf_layout_features(&p->spec.obs); i++)
        p->obs_scale[i] = 1, p->obs_offset[i] = 0;
    for (int i = 0; i < p->spec.action_dim; i++)
        p->action_scale[i] = 1, p->action_offset[i] = 0;
    p->has_normalizer = true;
}

unsigned mf_policy_frozen(const struct mf_policy_spec *s, bool freeze_encoder)
{
    return s->steer ? 1u << MF_GROUP_POLICY | 1u << MF_GROUP_ENCODER : freeze_encoder ? 1u << MF_GROUP_ENCODER : 0;
}

void mf_policy_warn_frozen(const struct mf_policy *p, bool freeze_encoder, void (*warn)(const char *text))
{
    const bool whole = p->spec.steer; /* a steered flow stays as it is, with an encoder or without */
    if (freeze_encoder && !whole && mf_params_count(&p->params, MF_GROUP_ENCODER) == 0)
        warn("training.freeze_encoder=true has no effect: the policy has no encoder");
}

void mf_policy_memory(const struct mf_policy *p, struct mf_memory *to)
{
    static const char sizes[] = "policy.n_layer and policy.n_emb, or policy.hidden";
    to->of[MF_MEMORY_WEIGHTS] += (double)(p->params.size * sizeof(float));
    for (int i = 0; i < p->params.n; i++) /* pages of the file, once they are read */
        if (p->params.p[i].bf16)
            to->of[MF_MEMORY_WEIGHTS] += 2 * (double)p->params.p[i].rows * (double)p->params.p[i].cols;
    to->keys[MF_MEMORY_WEIGHTS] = to->keys[MF_MEMORY_GRADIENTS] = to->keys[MF_MEMORY_SERVED] = sizes;
}

void mf_policy_release(struct mf_policy *p)
{
    mf_params_release(&p->params);
    mf_checkpoint_close(p->base);
    free(p->obs_scale);
    *p = (struct mf_policy){0};
}

void mf_policy_set_noise(struct mf_policy *p, double low, double high)
{
    p->noise_low = low;
    p->noise_high = high;
    for (int i = 0; i < p->params.n; i++) {
        const struct mf_param *of = &p->params.p[i];
        const bool least = mf_ends(of->name, ".logvar_min");
        if (least || mf_ends(of->name, ".logvar_max"))
            p->params.value[of->at] = mf_policy_logvar(least ? low : high);
    }
}

float mf_policy_logvar(double std)
{
    return (float)log(std * std);
}

struct mf_affine mf_policy_state(const struct mf_policy *p)
{
    return p->spec.state_in_prompt ? (struct mf_affine){p->obs_scale, p->obs_offset} : (struct mf_affine){NULL, NULL};
}

/* One step. A picture has no features: its floats are copied. */
static void normalize_step(const struct mf_policy *p, const float *obs, float *out)
{
    const struct mf_layout *l = &p->spec.obs;
    size_t feature = 0;
    for (int i = 0; i < l->n; i++) {
        const size_t size = (size_t)mf_obs_size(&l->key[i]), features = (size_t)mf_obs_features(&l->key[i]);
        mf_normalize(features, p->obs_scale + feature, p->obs_offset + feature, obs, out);
        if (out != obs)
            memcpy(out + features, obs + features, (size - features) * sizeof *out);
        obs += size;
        out += size;
        feature += features;
    }
}

void mf_policy_normalize(const struct mf_policy *p, size_t n, const float *obs, float *out)
{
    const size_t dim = (size_t)p->spec.obs.dim, steps = n * (size_t)p->spec.n_obs_steps;
    for (size_t i = 0; i < steps; i++)
        normalize_step(p, obs + i * dim, out + i * dim);
}

void mf_policy_normalize_key(const struct mf_policy *p, const char *key, float *obs)
{
    const struct mf_layout *l = &p->spec.obs;
    int at = 0;
    for (int i = 0; i < l->n; at += mf_obs_features(&l->key[i++]))
        if (!strcmp(l->key[i].name, key))
            mf_normalize((size_t)mf_obs_features(&l->key[i]), p->obs_scale + at, p->obs_offset + at, obs, obs);
}
