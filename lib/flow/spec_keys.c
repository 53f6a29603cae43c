#include "flow/spec_keys.h"

#include <stdio.h>
#include <string.h>

#include "base/resize.h"
#include "base/text.h"
#include "flow/checkpoint.h"
#include "flow/fields.h"
#include "nn/encoder.h"

const struct mf_bind mf_policy_binds[] = {
#define SPEC(key, ...) {"policy." #key, MF_BIND_NONE},
#define STEP           SPEC
#define PROMPT         SPEC
#define PICTURE        SPEC
#define FPO            SPEC
#define STEER          SPEC
#define SIZE           SPEC
#define WIDTHS         SPEC
#include "conf/policy.inc"
    {"policy.network", MF_BIND_NONE},
    {"policy.encoder", MF_BIND_NONE},
    {"policy.add_value_head", MF_BIND_NONE},
    {0},
};

/* Noise belongs to the denoising steps that are scored; `asked` has the method for a policy that had none. */
static void set_noise(struct mf_policy_spec *s, const struct mf_policy_spec *asked)
{
    if (mf_policy_scores_chain(s)) {
        s->noise_method = s->noise_method == MF_FLOW_ODE ? asked->noise_method : s->noise_method;
        return;
    }
    s->noise_method = MF_FLOW_ODE;
    s->learned_noise = false;
}

/* A key that was set would have no meaning. */
static int check_steer(const struct mf_policy_spec *s, struct mf_err *err)
{
    char steer[MF_SPEC_TEXT], text[MF_SPEC_TEXT];
    const char *other = s->learned_noise                                                   ? "learned_noise"
                        : s->noise_method == MF_FLOW_SDE || s->noise_method == MF_FLOW_CPS ? "noise_method"
                        : s->objective == MF_FPO || s->objective == MF_FPO_EACH            ? "objective"
                                                                                           : NULL;
    if (!s->steer || !other)
        return 0;
    return mf_err_set(
        err, MF_EUSAGE,
        "policy.%s=%s does not go with policy.steer=%s, which trains the latent actor of a frozen flow that "
        "samples without noise: leave one of the two out",
        other, mf_spec_value(s, other, text), mf_spec_value(s, "steer", steer));
}

/* A prompt with the state is made of the words of a task, and of numbers. */
static int check_prompt(const struct mf_policy_spec *s, struct mf_err *err)
{
    if (s->state_in_prompt && !mf_layout_find(&s->obs, MF_OBS_TOKENS))
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.state_in_prompt=true is for a policy that reads a prompt: give policy.tokenizer, and the "
            "key " MF_OBS_TOKENS " in policy.obs_keys");
    if (s->state_in_prompt && mf_layout_state(&s->obs, NULL, NULL, NULL) == 0)
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.state_in_prompt=true, and policy.obs_keys has no state: add its low-dimensional keys");
    return 0;
}

/* Keys of color pictures are for a policy that reads one. An import may not know its observations yet. */
static int check_pictures(const struct mf_policy_spec *s, const struct mf_conf *conf, struct mf_err *err)
{
    const bool sized = strcmp(mf_conf_text(conf, "policy.image_size"), "0") != 0;
    bool any = s->obs.n == 0;
    for (int i = 0; i < s->obs.n; i++)
        any = any || mf_obs_is_resizable(&s->obs.key[i]);
    if (any || (!sized && !s->turn_images))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "policy.%s=%s is for color pictures, and the policy reads none: name them in policy.obs_keys, or "
                      "leave it out",
                      sized ? "image_size" : "turn_images", sized ? mf_conf_text(conf, "policy.image_size") : "true");
}

int mf_policy_spec_make(struct mf_policy_spec *s, const struct mf_conf *conf, const struct mf_layout *obs, int A,
                        struct mf_err *err)
{
    *s = (struct mf_policy_spec){.obs = *obs, .action_dim = A};
    for (const struct mf_spec_field *f = mf_spec_fields; f < mf_spec_fields + mf_spec_n; f++) {
        struct mf_err never;
        const char *text = f->key && f->form != MF_SPEC_NAME ? mf_conf_text(conf, f->key) : NULL;
        if (text && f->form == MF_SPEC_NET && mf_net_find(&s->net.net, text, err))
            return err->code;
        if (text && f->form == MF_SPEC_ENCODER && mf_encoder_find(&s->net.encoder, text, err))
            return err->code;
        const bool by_name = f->form == MF_SPEC_NET || f->form == MF_SPEC_ENCODER;
        if (text && !by_name && mf_spec_set(s, f, text, "", &never)) /* its range holds already */
            return mf_err_set(err, MF_EUSAGE, "%s=%.200s has more than %d layers", f->key, text, MF_DIMS_MAX);
    }
    if (!strcmp(mf_conf_text(conf, "policy.add_value_head"), "false"))
        s->n_critic = 0;
    if (s->steer == MF_STEER_SAC)
        s->n_critic = 0; /* its critics are of actions, and mf-sac has them */
    const int rc = check_steer(s, err) || check_prompt(s, err) || check_pictures(s, conf, err) ? err->code : 0;
    set_noise(s, s);
    return rc;
}

int mf_policy_spec_tokenizer(struct mf_policy_spec *s, const char *name, const char *digest, int pieces,
                             struct mf_err *err)
{
    if (!digest || !mf_layout_find(&s->obs, MF_OBS_TOKENS))
        return 0;
    if (*s->tokenizer && strcmp(s->tokenizer, digest) != 0)
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.tokenizer has the digest %s, and %.200s was trained with the tokenizer %s, whose tokens "
            "are others: give that file",
            digest, name, s->tokenizer);
    if (s->net.net->sizes & MF_SIZE(vocabulary) && pieces > s->net.vocabulary)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.tokenizer has %d tokens, and the policy has embeddings of policy.vocabulary=%d: give "
                          "a fresh policy as many, or another policy the tokenizer that it was trained with",
                          pieces, s->net.vocabulary);
    snprintf(s->tokenizer, sizeof s->tokenizer, "%s", digest);
    return 0;
}

/* Points of the layout's cloud; 0: it has none. */
static int points(const struct mf_layout *l)
{
    for (int i = 0; i < l->n; i++)
        if (mf_obs_is_cloud(&l->key[i]))
            return l->key[i].dim[0];
    return 0;
}

/* The first observation that both have, in different shapes or types. */
static bool reshaped(const struct mf_layout *a, const struct mf_layout *b, const struct mf_obs **was,
                     const struct mf_obs **is)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            *was = &a->key[i];
            *is = &b->key[k];
            if (!strcmp((*was)->name, (*is)->name) &&
                ((*was)->u8 != (*is)->u8 || memcmp((*was)->dim, (*is)->dim, sizeof(*is)->dim)))
                return true;
        }
    return false;
}

/* The same observations in another order. */
static bool reordered(const struct mf_layout *a, const struct mf_layout *b)
{
    bool all = a->n == b->n;
    for (int i = 0; i < a->n; i++)
        all = all && mf_layout_column(b, a->key[i].name) >= 0;
    return all;
}

/* The source of the observations and actions that are compared with a policy's. */
struct world {
    const char *demos; /* NULL: from an environment */
    const struct mf_conf *conf;
};

/* A key that was set is named; else what would give the policy its pictures. */
static void picture_advice(const struct world *w, const struct mf_obs *was, char to[160])
{
    const char *size = mf_conf_text(w->conf, "policy.image_size");
    char give[64] = "";
    if (was->dim[0] == was->dim[1])
        snprintf(give, sizeof give, "policy.image_size=%d", was->dim[0]);
    if (strcmp(size, "0") != 0)
        snprintf(to, 160, "policy.image_size=%s is another size: %s%s", size, *give ? "give " : "leave it out", give);
    else if (w->demos)
        snprintf(to, 160, "%s%s", *give ? "give " : "give demonstrations with such pictures", *give ? give : "");
    else
        snprintf(to, 160, "leave env.image_size to the checkpoint, give its server that size%s%s", *give ? ", or " : "",
                 give);
}

/* The error for observations or actions that differ from those of the training. */
static int other_world(const struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                       const struct mf_spec_field *f, const struct world *w, struct mf_err *err)
{
    char x[MF_SPEC_TEXT], y[MF_SPEC_TEXT], was_text[64], is_text[64], advice[160];
    const char *in = w->demos ? w->demos : "the environment";
    const struct mf_obs *was, *is;
    struct mf_policy_spec same = *s;
    mf_spec_text(asked, f, y);
    mf_layout_points(&same.obs, points(&asked->obs));
    mf_spec_text(&same, f, x);
    if (points(&s->obs) != points(&asked->obs) && !strcmp(x, y))
        return mf_err_set(err, MF_EUSAGE, "%.150s has clouds of %d points, and %.150s has %d: %s", name,
                          points(&s->obs), in, points(&asked->obs),
                          w->demos ? "give demonstrations of so many" : "leave env.num_points to the checkpoint");
    if (f->form == MF_SPEC_OBS && reshaped(&s->obs, &asked->obs, &was, &is)) {
        if (mf_obs_is_picture(was) && was->u8 == is->u8 && was->dim[2] == is->dim[2])
            picture_advice(w, was, advice);
        else
            snprintf(advice, sizeof advice, "give %s the settings of the training",
                     w->demos ? "demonstrations that were made with" : "the environment, or its server,");
        return mf_err_set(err, MF_EUSAGE, "the observation '%s' is %s in %.150s, and %s in %.150s: %s", was->name,
                          mf_obs_shape(was, was_text), name, mf_obs_shape(is, is_text), in, advice);
    }
    mf_spec_text(s, f, x);
    if (f->form == MF_SPEC_OBS && reordered(&s->obs, &asked->obs))
        return mf_err_set(
            err, MF_EUSAGE,
            "%.150s reads the same observations in another order, %.300s: leave policy.obs_keys to it, or "
            "give that order",
            name, x);
    return mf_err_set(err, MF_EUSAGE, "%s is %.150s in %.150s and %.150s in %.150s: give %s and policy.obs_keys",
                      f->name, x, name, y, in, w->demos ? "demonstrations of its environment," : "its env=NAME");
}

/* Compares `asked` with *s in the fields without a key, which the environment sets, and in those whose keys were set. A
 * difference in a learned field (`fixed`: in any field) is an error; other fields are copied into *s. A clone has no
 * critic and no noise net, only FPO has draws, and only a steered policy a latent actor: the keys give the sizes of new
 * ones. */
static int overlay(struct mf_policy_spec *s, const char *name, bool fixed, const struct mf_policy_spec *asked,
                   const struct world *w, struct mf_err *err)
{
    char x[MF_SPEC_TEXT], y[MF_SPEC_TEXT];
    const bool steered = s->steer;
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(s, f));) {
        mf_spec_text(s, f, x);
        mf_spec_text(asked, f, y);
        bool grown =
            !fixed && !f->learned && (!strcmp(x, "[]") || (f->fpo && !strcmp(x, "0")) || (f->steer && !steered));
        if (mf_spec_same(f, x, y) || (f->key && !mf_conf_was_set(w->conf, f->key) && !grown))
            continue;
        if (!f->key)
            return other_world(s, name, asked, f, w, err);
        if (fixed || f->learned)
            return mf_err_set(err, MF_EUSAGE, "%s=%.100s contradicts %.200s, where it is %.100s%s", f->key, y, name, x,
                              fixed ? "; give all stages the same words" : "");
        mf_spec_copy(s, asked, f);
    }
    set_noise(s, asked);
    return 0;
}

int mf_policy_spec_overlay(struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                           const struct mf_conf *conf, struct mf_err *err)
{
    return overlay(s, name, false, asked, &(struct world){.conf = conf}, err);
}

int mf_policy_spec_adopt(struct mf_policy_spec *s, const struct mf_loaded *l, const struct mf_conf *conf,
                         const struct mf_layout *obs, int A, const char *demos, struct mf_err *err)
{
    const struct world w = {.demos = demos, .conf = conf};
    struct mf_policy_spec asked;
    int rc = mf_policy_spec_make(&asked, conf, obs, A, err);
    *s = *mf_loaded_spec(l);
    if (rc || (rc = overlay(s, mf_loaded_path(l), false, &asked, &w, err)))
        return rc;
    const bool trained_without = !strcmp(mf_loaded_kind(l), "ppo") && mf_loaded_spec(l)->n_critic == 0;
    if (trained_without || s->steer == MF_STEER_SAC || !strcmp(mf_conf_text(conf, "policy.add_value_head"), "false"))
        s->n_critic = 0;
    return 0;
}

/* The observations of a stream are in the order of policy.obs_keys. */
static int holds_obs(const struct mf_layout *obs, const struct mf_conf *conf, struct mf_err *err)
{
    static const struct mf_bind bind[] = {{"policy.obs_keys", 0}, {0}};
    struct mf_names keys = {.n = 0};
    char names[600] = "";
    int rc = mf_conf_bind(conf, bind, &keys, err);
    bool same = keys.n == obs->n;
    for (int i = 0; i < obs->n; i++) {
        same = same && !strcmp(keys.v[i], obs->key[i].name);
        mf_list_add(names, sizeof names, ", ", obs->key[i].name);
    }
    if (rc || keys.n == 0 || same)
        return rc;
    return mf_err_set(err, MF_EUSAGE,
                      "policy.obs_keys=%.300s contradicts the stream's head, where it is [%.300s]; give all stages the "
                      "same words",
                      mf_conf_text(conf, "policy.obs_keys"), names);
}

int mf_policy_spec_holds(const struct mf_policy_spec *stream, const struct mf_conf *conf, struct mf_err *err)
{
    struct mf_policy_spec asked, s = *stream;
    int rc = mf_policy_spec_make(&asked, conf, &s.obs, s.action_dim, err);
    if (!mf_policy_scores_chain(&s)) { /* sampled without noise, whatever a configuration says of it */
        asked.noise_method = s.noise_method;
        asked.learned_noise = s.learned_noise;
    }
    if (s.steer == MF_STEER_SAC)
        asked.n_critic = 0;
    rc = rc ? rc : overlay(&s, "the stream's head", true, &asked, &(struct world){.conf = conf}, err);
    return rc ? rc : holds_obs(&stream->obs, conf, err);
}

int mf_policy_head_encoded(const struct mf_frame *head, const struct mf_conf *conf, bool *encoded, struct mf_err *err)
{
    if (mf_frame_has(head, "encoded") && mf_frame_get_bool(head, "encoded", encoded, err))
        return err->code;
    if (!*encoded || !strcmp(mf_conf_text(conf, "training.freeze_encoder"), "true"))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "the stream carries encodings instead of observations, so the encoder cannot be trained: give "
                      "mf-ppo training.freeze_encoder=true, or mf-collect training.freeze_encoder=false");
}

int mf_policy_head_fits(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err)
{
    struct mf_policy_spec spec;
    struct mf_policy outline;
    bool encoded = false;
    int rc;
    if ((rc = mf_conf_bind(conf, mf_policy_binds, NULL, err)) ||
        (rc = mf_policy_head_encoded(head, conf, &encoded, err)) || (rc = mf_policy_spec_from_head(&spec, head, err)) ||
        (rc = mf_policy_spec_holds(&spec, conf, err)) || (rc = mf_policy_outline(&outline, &spec, err)))
        return rc;
    mf_policy_release(&outline);
    return 0;
}
