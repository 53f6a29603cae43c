#include "flow/spec_keys.h"

#include <string.h>

#include "dev/op.h"
#include "flow/checkpoint.h"
#include "flow/fields.h"

static int widths(int *n, int to[MF_DIMS_MAX], const struct mf_ints *from, const char *key, struct mf_err *err)
{
    if (from->n > MF_DIMS_MAX)
        return mf_err_set(err, MF_EUSAGE, "%s has %d layers, of which there may be %d", key, from->n, MF_DIMS_MAX);
    *n = from->n;
    for (int i = 0; i < from->n; i++)
        to[i] = (int)from->v[i];
    return 0;
}

int mf_policy_spec_make(struct mf_policy_spec *s, const struct mf_policy_opts *o, const struct mf_layout *obs, int A,
                        struct mf_err *err)
{
    *s = (struct mf_policy_spec){
        .obs = *obs,
        .n_obs_steps = (int)o->n_obs_steps,
        .action_dim = A,
        .horizon = (int)o->horizon,
        .n_action_steps = (int)o->n_action_steps,
        .action_offset = (int)o->action_offset,
        .K = (int)o->num_inference_steps,
        .convention = (enum mf_convention)o->convention,
        .target_time = (enum mf_target_time)o->target_time,
        .noise_method = (enum mf_noise_method)(MF_FLOW_NOISE + o->noise_method),
        .denoise = (enum mf_denoise)o->denoise,
        .objective = (enum mf_objective)o->objective,
        .learned_noise = o->learned_noise,
        .mean_limit = (float)o->mean_limit,
        .noise_clip = (float)o->noise_clip,
        .final_limit = (float)o->final_limit,
        .net = {.act = o->activation ? MF_ACT_MISH : MF_ACT_RELU,
                .time_dim = (int)o->time_dim,
                .layers = (int)o->n_layer,
                .heads = (int)o->n_head,
                .width = (int)o->n_emb,
                .encoder_dim = (int)o->encoder_output_dim,
                .kernel = (int)o->kernel_size,
                .n_groups = (int)o->n_groups,
                .qkv_bias = o->qkv_bias,
                .qk_norm = o->qk_norm,
                .legacy_rms = o->legacy_rms,
                .pointwise = o->pointwise,
                .color = o->use_pc_color,
                .value_pool = (enum mf_value_pool)o->value_pool},
    };
    int rc = mf_net_find(&s->net.net, o->network, err) ||
                     widths(&s->net.n_hidden, s->net.hidden, &o->hidden, "policy.hidden", err) ||
                     widths(&s->net.n_cond, s->net.cond, &o->cond_hidden, "policy.cond_hidden", err) ||
                     widths(&s->net.n_down, s->net.down, &o->down_dims, "policy.down_dims", err) ||
                     widths(&s->n_critic, s->critic, &o->critic_hidden, "policy.critic_hidden", err) ||
                     widths(&s->n_noise, s->noise, &o->noise_hidden, "policy.noise_hidden", err)
                 ? err->code
                 : 0;
    if (!o->add_value_head)
        s->n_critic = 0;
    return rc;
}

static int points(const struct mf_layout *l)
{
    for (int i = 0; i < l->n; i++)
        if (mf_obs_is_cloud(&l->key[i]))
            return l->key[i].dim[0];
    return 0;
}

/* What there is to see is not what was learned from. */
static int other_world(const struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                       const struct mf_spec_field *f, struct mf_err *err)
{
    char x[MF_SPEC_TEXT], y[MF_SPEC_TEXT];
    struct mf_policy_spec same = *s;
    mf_spec_text(asked, f, y);
    mf_layout_points(&same.obs, points(&asked->obs));
    mf_spec_text(&same, f, x);
    if (points(&s->obs) != points(&asked->obs) && !strcmp(x, y))
        return mf_err_set(err, MF_EUSAGE,
                          "%.150s sees clouds of %d points, and the environment shows %d: leave env.num_points to the "
                          "checkpoint",
                          name, points(&s->obs), points(&asked->obs));
    mf_spec_text(s, f, x);
    return mf_err_set(err, MF_EUSAGE,
                      "%s is %.150s in %.150s and %.150s in the environment: does it want another env=NAME or "
                      "policy.obs_keys?",
                      f->name, x, name, y);
}

/* Hold what was asked against *s: what has no key (the world's), and the keys that were set. Where they differ, what
 * was learned (`fixed`: anything) is an error; the rest is taken over. A clone has neither critic nor noise net: the
 * keys say what is grown. */
static int overlay(struct mf_policy_spec *s, const char *name, bool fixed, const struct mf_policy_spec *asked,
                   const struct mf_conf *conf, struct mf_err *err)
{
    char x[MF_SPEC_TEXT], y[MF_SPEC_TEXT];
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(s, f));) {
        mf_spec_text(s, f, x);
        mf_spec_text(asked, f, y);
        bool grown = !fixed && !f->learned && !strcmp(x, "[]");
        if (mf_spec_same(f, x, y) || (f->key && !mf_conf_was_set(conf, f->key) && !grown))
            continue;
        if (!f->key)
            return other_world(s, name, asked, f, err);
        if (fixed || f->learned)
            return mf_err_set(err, MF_EUSAGE, "%s=%.100s contradicts %.200s, where it is %.100s%s", f->key, y, name, x,
                              fixed ? "; give all stages the same words" : "");
        mf_spec_copy(s, asked, f);
    }
    return 0;
}

int mf_policy_spec_overlay(struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                           const struct mf_conf *conf, struct mf_err *err)
{
    return overlay(s, name, false, asked, conf, err);
}

int mf_policy_spec_adopt(struct mf_policy_spec *s, const struct mf_loaded *l, const struct mf_conf *conf,
                         const struct mf_policy_opts *o, const struct mf_layout *obs, int A, struct mf_err *err)
{
    struct mf_policy_spec asked;
    int rc = mf_policy_spec_make(&asked, o, obs, A, err);
    *s = *mf_loaded_spec(l);
    return rc ? rc : overlay(s, mf_loaded_path(l), false, &asked, conf, err);
}

int mf_policy_spec_holds(const struct mf_policy_spec *stream, const struct mf_conf *conf,
                         const struct mf_policy_opts *o, struct mf_err *err)
{
    struct mf_policy_spec asked, s = *stream;
    int rc = mf_policy_spec_make(&asked, o, &s.obs, s.action_dim, err);
    return rc ? rc : overlay(&s, "the stream's head", true, &asked, conf, err);
}

int mf_policy_head_encoded(const struct mf_frame *head, const struct mf_conf *conf, bool *encoded, struct mf_err *err)
{
    if (mf_frame_has(head, "encoded") && mf_frame_get_bool(head, "encoded", encoded, err))
        return err->code;
    if (!*encoded || !strcmp(mf_conf_text(conf, "training.freeze_encoder"), "true"))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "the stream carries encodings of its observations, of which no encoder can learn: give mf-ppo "
                      "training.freeze_encoder=true, or mf-collect false");
}

struct keys {
    struct mf_policy_opts policy;
};

int mf_policy_head_fits(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err)
{
    static const struct mf_bind binds[] = {MF_POLICY_BINDS(struct keys, policy), {0}};
    struct keys k;
    struct mf_policy_spec spec;
    struct mf_policy outline;
    bool encoded = false;
    int rc;
    if ((rc = mf_conf_bind(conf, binds, &k, err)) || (rc = mf_policy_head_encoded(head, conf, &encoded, err)) ||
        (rc = mf_policy_spec_from_head(&spec, head, err)) || (rc = mf_policy_spec_holds(&spec, conf, &k.policy, err)) ||
        (rc = mf_policy_outline(&outline, &spec, err)))
        return rc;
    mf_policy_release(&outline);
    return 0;
}
