#include "flow/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "flow/fields.h"
#include "nn/encoder.h"

enum { OBS_PATH = 160 }; /* "spec.obs.NAME.shape.2", all of its name escaped */

static void obs_to_head(const struct mf_policy_spec *s, struct mf_frame *head)
{
    char path[OBS_PATH], key[2 * sizeof s->obs.key->name];
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        int64_t dim[MF_OBS_RANK];
        mf_escape(key, o->name, ".");
        for (int k = 0; k < MF_OBS_RANK; k++)
            dim[k] = o->dim[k];
        snprintf(path, sizeof path, "spec.obs.%s.shape", key);
        mf_frame_set_ints(head, path, dim, (size_t)mf_obs_rank(o));
        snprintf(path, sizeof path, "spec.obs.%s.dtype", key);
        mf_frame_set_str(head, path, o->u8 ? "|u1" : "<f4");
    }
}

static void ints_to_head(struct mf_frame *head, const char *path, const int *ints, int n)
{
    int64_t v[MF_DIMS_MAX];
    for (int i = 0; i < n; i++)
        v[i] = ints[i];
    mf_frame_set_ints(head, path, v, (size_t)n);
}

void mf_policy_spec_to_head(const struct mf_policy_spec *s, struct mf_frame *head)
{
    char text[MF_SPEC_TEXT], path[80];
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(s, f));) {
        const void *p = (const char *)s + f->at;
        snprintf(path, sizeof path, "spec.%s", f->name);
        switch (f->form) {
        case MF_SPEC_INT:
            mf_frame_set_int(head, path, *(const int *)p);
            break;
        case MF_SPEC_FLOAT:
            mf_frame_set_num(head, path, (double)*(const float *)p);
            break;
        case MF_SPEC_BOOL:
            mf_frame_set_bool(head, path, *(const bool *)p);
            break;
        case MF_SPEC_CHOICE:
        case MF_SPEC_NET:
        case MF_SPEC_ENCODER:
            mf_spec_text(s, f, text);
            mf_frame_set_str(head, path, text);
            break;
        case MF_SPEC_NAME:
            if (*(const char *)p)
                mf_frame_set_str(head, path, p);
            break;
        case MF_SPEC_INTS:
            ints_to_head(head, path, (const int *)p + 1, *(const int *)p);
            break;
        case MF_SPEC_OBS:
            obs_to_head(s, head);
        }
    }
}

static int ints_from_head(const struct mf_frame *head, const char *path, char *text, struct mf_err *err)
{
    char at[96];
    int n = mf_frame_count(head, path), v[MF_DIMS_MAX];
    if (n < 0 || n > MF_DIMS_MAX)
        return mf_err_set(err, MF_EFORMAT, "the head's %s is no list of at most %d sizes", path, MF_DIMS_MAX);
    for (int i = 0; i < n; i++) {
        int64_t width;
        snprintf(at, sizeof at, "%s.%d", path, i);
        if (mf_frame_get_int(head, at, &width, err))
            return err->code;
        v[i] = width < 1 || width > MF_SPEC_DIM_MAX ? 0 : (int)width; /* 0 is refused below */
    }
    mf_spec_add_ints(text, v, n);
    return 0;
}

static int obs_from_head(const struct mf_frame *head, char *text, struct mf_err *err)
{
    char path[OBS_PATH], name[2 * sizeof((struct mf_obs *)0)->name];
    for (int i = 0; i < mf_frame_count(head, "spec.obs"); i++) {
        const char *key = mf_frame_key(head, "spec.obs", i), *dtype;
        if (!key || mf_obs_name_fault(key))
            return mf_err_set(err, MF_EFORMAT, "observation %d of the head's spec.obs has a name that %s", i,
                              key ? mf_obs_name_fault(key) : "is no text");
        mf_escape(name, key, ".");
        snprintf(path, sizeof path, "spec.obs.%s.shape", name);
        int rank = mf_frame_count(head, path);
        if (rank < 1 || rank > MF_OBS_RANK)
            return mf_err_set(err, MF_EFORMAT, "the head's %s does not have 1 to %d dimensions", path, MF_OBS_RANK);
        for (int k = 0; k < rank; k++) {
            int64_t dim;
            snprintf(path, sizeof path, "spec.obs.%s.shape.%d", name, k);
            if (mf_frame_get_int(head, path, &dim, err))
                return err->code;
            mf_spec_add(text, "%s%jd", k ? "x" : i ? "," : "", (intmax_t)dim);
        }
        snprintf(path, sizeof path, "spec.obs.%s.dtype", name);
        if (mf_frame_get_str(head, path, &dtype, err))
            return err->code;
        if (strcmp(dtype, "<f4") && strcmp(dtype, "|u1"))
            return mf_err_set(err, MF_EFORMAT, "the head's %s is %.20s, and a policy reads <f4 and |u1", path, dtype);
        mf_spec_add(text, "%s:%s", *dtype == '|' ? "u8" : "", mf_escape(name, key, ","));
    }
    return 0;
}

static int from_head(const struct mf_frame *head, const struct mf_spec_field *f, char *text, struct mf_err *err)
{
    char path[80];
    int64_t whole;
    double number;
    bool truth;
    const char *word;
    int rc = 0;
    snprintf(path, sizeof path, "spec.%s", f->name);
    if (f->absent && !mf_frame_has(head, path)) {
        mf_spec_add(text, "%s", f->absent);
        return 0;
    }
    switch (f->form) {
    case MF_SPEC_INT:
        if (!(rc = mf_frame_get_int(head, path, &whole, err)))
            mf_spec_add(text, "%jd", (intmax_t)whole);
        return rc;
    case MF_SPEC_FLOAT:
        if (!(rc = mf_frame_get_num(head, path, &number, err)))
            mf_spec_add(text, "%.9g", number);
        return rc;
    case MF_SPEC_BOOL:
        if (!(rc = mf_frame_get_bool(head, path, &truth, err)))
            mf_spec_add(text, truth ? "true" : "false");
        return rc;
    case MF_SPEC_CHOICE:
    case MF_SPEC_NET:
    case MF_SPEC_ENCODER:
    case MF_SPEC_NAME:
        if (!(rc = mf_frame_get_str(head, path, &word, err)))
            mf_spec_add(text, "%s", word);
        return rc;
    case MF_SPEC_INTS:
        return ints_from_head(head, path, text, err);
    case MF_SPEC_OBS:
        return obs_from_head(head, text, err);
    }
    return rc;
}

int mf_policy_spec_from_head(struct mf_policy_spec *s, const struct mf_frame *head, struct mf_err *err)
{
    *s = (struct mf_policy_spec){0};
    if (mf_frame_count(head, "spec.obs") <= 0)
        return mf_err_set(
            err, MF_EFORMAT,
            "the head describes no policy (no spec.obs): an expert's rollouts are for mf-record and mf-bc, "
            "and your own stage must write the head that mf-collect writes");
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(s, f));) {
        char text[MF_SPEC_TEXT] = "";
        if (from_head(head, f, text, err) || mf_spec_set(s, f, text, "the head", err))
            return err->code;
    }
    return 0;
}

int mf_policy_spec_agree(const struct mf_policy_spec *a, const char *a_name, const struct mf_policy_spec *b,
                         const char *b_name, struct mf_err *err)
{
    return mf_spec_agree(a, a_name, b, b_name, true, err);
}

void mf_policy_spec_warn(const struct mf_policy_spec *s, void (*warn)(const char *text))
{
    const struct mf_net_spec *net = &s->net;
    if (mf_layout_pictures(&s->obs) && !net->net->encoder && (!net->encoder || net->encoder == &mf_encoder_none))
        warn("the network reads every pixel as a number: policy.encoder=nature, or another one, encodes pictures");
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        char text[MF_NAME_MAX + 160];
        snprintf(text, sizeof text,
                 "the picture '%s' is float32 and has %d channels, and float32 is taken as meters along the camera's "
                 "axis: colors are uint8, 0 to 255",
                 o->name, o->dim[2]);
        if (mf_obs_is_picture(o) && !o->u8 && o->dim[2] > 1)
            warn(text);
    }
    if (mf_layout_find(&s->obs, MF_OBS_TOKENS) && !(net->net->sizes & MF_SIZE(vocabulary)))
        warn("the network reads the ids of " MF_OBS_TOKENS
             " as numbers: policy.network=pi05 has an embedding for each, or leave tokens out of policy.obs_keys");
}

bool mf_logprob_by_action(const struct mf_policy_spec *s)
{
    if (s->steer)
        return s->steer_logprob == MF_STEER_EXECUTED;
    return s->objective == MF_STEP || s->objective == MF_STEP_MEAN;
}

int mf_action_width(const struct mf_policy_spec *s)
{
    return s->net.action_width ? s->net.action_width : s->action_dim;
}

int mf_logprob_width(const struct mf_policy_spec *s)
{
    if (mf_logprob_by_action(s))
        return s->n_action_steps * s->action_dim;
    return s->objective == MF_FPO_EACH ? s->fpo_draws : 1;
}

bool mf_policy_is_fpo(const struct mf_policy_spec *s)
{
    return s->objective == MF_FPO || s->objective == MF_FPO_EACH;
}

bool mf_policy_scores_chain(const struct mf_policy_spec *s)
{
    return !mf_policy_is_fpo(s) && !s->steer;
}
