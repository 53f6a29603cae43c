#include "flow/fields.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char *const convention[] = {"noise0", "noise1", NULL};
static const char *const target_time[] = {"step", "zero", NULL};
static const char *const noise_method[] = {"none", "flow_noise", "flow_sde", "flow_cps", NULL};
static const char *const denoise[] = {"joint", "single", NULL};
static const char *const objective[] = {"chain_mean", "chain_sum", "step", "step_mean", NULL};
static const char *const value_pool[] = {"mean", "attention", "score", NULL};
static const char *const activation[] = {"none", "relu", "mish", "tanh", NULL};

/* Every field once: its name in a head's spec and in a checkpoint's metadata, its key. */
const struct mf_spec_field mf_spec_fields[] = {
#define AT(f) offsetof(struct mf_policy_spec, f)
    {"obs", NULL, MF_SPEC_OBS, AT(obs), 0, NULL, true, MF_SIZES_ALL},
    {"action_dim", NULL, MF_SPEC_INT, AT(action_dim), 0, NULL, true, MF_SIZES_ALL},
    {"n_obs_steps", "policy.n_obs_steps", MF_SPEC_INT, AT(n_obs_steps), 0, NULL, true, MF_SIZES_ALL},
    {"horizon", "policy.horizon", MF_SPEC_INT, AT(horizon), 0, NULL, true, MF_SIZES_ALL},
    {"n_action_steps", "policy.n_action_steps", MF_SPEC_INT, AT(n_action_steps), 0, NULL, false, MF_SIZES_ALL},
    {"action_offset", "policy.action_offset", MF_SPEC_INT, AT(action_offset), 0, NULL, false, MF_SIZES_ALL},
    {"denoising_steps", "policy.num_inference_steps", MF_SPEC_INT, AT(K), 0, NULL, false, MF_SIZES_ALL},
    {"convention", "policy.convention", MF_SPEC_WORD, AT(convention), 0, convention, true, MF_SIZES_ALL},
    {"noise_method", "policy.noise_method", MF_SPEC_WORD, AT(noise_method), 0, noise_method, false, MF_SIZES_ALL},
    {"denoise", "policy.denoise", MF_SPEC_WORD, AT(denoise), 0, denoise, false, MF_SIZES_ALL},
    {"objective", "policy.objective", MF_SPEC_WORD, AT(objective), 0, objective, false, MF_SIZES_ALL},
    {"learned_noise", "policy.learned_noise", MF_SPEC_BOOL, AT(learned_noise), 0, NULL, false, MF_SIZES_ALL},
    {"mean_limit", "policy.mean_limit", MF_SPEC_FLOAT, AT(mean_limit), 0, NULL, false, MF_SIZES_ALL},
    {"noise_clip", "policy.noise_clip", MF_SPEC_FLOAT, AT(noise_clip), 0, NULL, false, MF_SIZES_ALL},
    {"final_limit", "policy.final_limit", MF_SPEC_FLOAT, AT(final_limit), 0, NULL, false, MF_SIZES_ALL},
    {"network", "policy.network", MF_SPEC_NET, AT(net.net), 0, NULL, true, MF_SIZES_ALL},
    {"target_time", "policy.target_time", MF_SPEC_LATER_WORD, AT(target_time), 0, target_time, true, MF_SIZES_STEP},
    {"hidden", "policy.hidden", MF_SPEC_WIDTHS, AT(net.hidden), AT(net.n_hidden), NULL, true, MF_SIZES_MLP},
    {"activation", "policy.activation", MF_SPEC_WORD, AT(net.act), 0, activation, true, MF_SIZES_MLP},
    {"time_dim", "policy.time_dim", MF_SPEC_INT, AT(net.time_dim), 0, NULL, true, MF_SIZES_ALL},
    {"cond_hidden", "policy.cond_hidden", MF_SPEC_WIDTHS, AT(net.cond), AT(net.n_cond), NULL, true, MF_SIZES_MLP},
    {"n_layer", "policy.n_layer", MF_SPEC_INT, AT(net.layers), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"n_head", "policy.n_head", MF_SPEC_INT, AT(net.heads), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"n_emb", "policy.n_emb", MF_SPEC_INT, AT(net.width), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"qkv_bias", "policy.qkv_bias", MF_SPEC_BOOL, AT(net.qkv_bias), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"qk_norm", "policy.qk_norm", MF_SPEC_BOOL, AT(net.qk_norm), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"legacy_rms", "policy.legacy_rms", MF_SPEC_BOOL, AT(net.legacy_rms), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"encoder_output_dim", "policy.encoder_output_dim", MF_SPEC_INT, AT(net.encoder_dim), 0, NULL, true,
     MF_SIZES_TRANSFORMER},
    {"pointwise", "policy.pointwise", MF_SPEC_BOOL, AT(net.pointwise), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"use_pc_color", "policy.use_pc_color", MF_SPEC_BOOL, AT(net.color), 0, NULL, true, MF_SIZES_TRANSFORMER},
    {"value_pool", "policy.value_pool", MF_SPEC_WORD, AT(net.value_pool), 0, value_pool, false, MF_SIZES_TRANSFORMER},
    {"down_dims", "policy.down_dims", MF_SPEC_WIDTHS, AT(net.down), AT(net.n_down), NULL, true, MF_SIZES_UNET},
    {"kernel_size", "policy.kernel_size", MF_SPEC_INT, AT(net.kernel), 0, NULL, true, MF_SIZES_UNET},
    {"n_groups", "policy.n_groups", MF_SPEC_INT, AT(net.n_groups), 0, NULL, true, MF_SIZES_UNET},
    {"critic_hidden", "policy.critic_hidden", MF_SPEC_WIDTHS, AT(critic), AT(n_critic), NULL, false, MF_SIZES_ALL},
    {"noise_hidden", "policy.noise_hidden", MF_SPEC_WIDTHS, AT(noise), AT(n_noise), NULL, false, MF_SIZES_ALL},
    {"env", "env.name", MF_SPEC_NAME, AT(env), 0, NULL, false, MF_SIZES_ALL},
#undef AT
};
const int mf_spec_n = sizeof mf_spec_fields / sizeof *mf_spec_fields;

const struct mf_spec_field *mf_spec_next(const struct mf_policy_spec *s, const struct mf_spec_field *f)
{
    const struct mf_net *net = s->net.net;
    for (f = f ? f + 1 : mf_spec_fields; f < mf_spec_fields + mf_spec_n; f++)
        if (f->sizes == MF_SIZES_ALL || (net && (f->sizes == MF_SIZES_STEP ? net->step_size : f->sizes == net->sizes)))
            return f;
    return NULL;
}

const char *mf_spec_absent(const struct mf_spec_field *f)
{
    return f->form == MF_SPEC_NAME ? "" : f->form == MF_SPEC_LATER_WORD ? f->words[0] : NULL;
}

/* ---- to text ---- */

void mf_spec_add(char text[MF_SPEC_TEXT], const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, MF_SPEC_TEXT - n, fmt, ap);
    va_end(ap);
}

const char *mf_spec_word(const struct mf_policy_spec *s, const char *field)
{
    const struct mf_spec_field *f = mf_spec_fields;
    while (strcmp(f->name, field))
        f++;
    return f->words[*(const int *)((const char *)s + f->at)];
}

void mf_spec_add_widths(char text[MF_SPEC_TEXT], const int *v, int n)
{
    mf_spec_add(text, "[");
    for (int i = 0; i < n; i++)
        mf_spec_add(text, i ? ",%d" : "%d", v[i]);
    mf_spec_add(text, "]");
}

void mf_spec_text(const struct mf_policy_spec *s, const struct mf_spec_field *f, char text[MF_SPEC_TEXT])
{
    const char *p = (const char *)s + f->at;
    text[0] = 0;
    switch (f->form) {
    case MF_SPEC_INT:
        mf_spec_add(text, "%d", *(const int *)p);
        break;
    case MF_SPEC_FLOAT:
        mf_spec_add(text, "%.9g", (double)*(const float *)p);
        break;
    case MF_SPEC_BOOL:
        mf_spec_add(text, *(const bool *)p ? "true" : "false");
        break;
    case MF_SPEC_WORD:
    case MF_SPEC_LATER_WORD:
        mf_spec_add(text, "%s", f->words[*(const int *)p]);
        break;
    case MF_SPEC_WIDTHS:
        mf_spec_add_widths(text, (const int *)p, *(const int *)((const char *)s + f->count));
        break;
    case MF_SPEC_NET:
        mf_spec_add(text, "%s", s->net.net->name);
        break;
    case MF_SPEC_NAME:
        mf_spec_add(text, "%s", p);
        break;
    case MF_SPEC_OBS:
        for (int i = 0; i < s->obs.n; i++) {
            const struct mf_obs *o = &s->obs.key[i];
            char name[2 * sizeof o->name]; /* a comma ends it where no backslash is before */
            for (int k = 0; k < mf_obs_rank(o); k++)
                mf_spec_add(text, "%s%d", k ? "x" : i ? "," : "", o->dim[k]);
            mf_spec_add(text, "%s:%s", o->u8 ? "u8" : "", mf_escape(name, o->name, ","));
        }
    }
}

/* ---- from text ---- */

/* An integer in [0, MF_SPEC_DIM_MAX]; *s moves past it. -1: none. */
static int integer(const char **s)
{
    char *end;
    errno = 0;
    long v = **s >= '0' && **s <= '9' ? strtol(*s, &end, 10) : -1;
    if (v < 0 || v > MF_SPEC_DIM_MAX || errno)
        return -1;
    *s = end;
    return (int)v;
}

static bool set_widths(int *v, int *n, const char *text)
{
    *n = 0;
    if (*text++ != '[')
        return false;
    if (!strcmp(text, "]"))
        return true;
    for (; *n < MF_DIMS_MAX; text++) {
        v[*n] = integer(&text);
        if (v[(*n)++] < 1)
            return false;
        if (*text != ',')
            return !strcmp(text, "]");
    }
    return false;
}

/* "1024x6:" or "64x64x3u8:", with at most MF_SPEC_DIM_MAX numbers. */
static bool set_shape(struct mf_obs *o, const char **text)
{
    int64_t size = 1;
    for (int k = 0; k < MF_OBS_RANK; k++) {
        size *= o->dim[k] = integer(text);
        if (o->dim[k] < 1 || size > MF_SPEC_DIM_MAX)
            return false;
        if (**text != 'x')
            break;
        ++*text;
    }
    o->u8 = !strncmp(*text, "u8", 2);
    *text += o->u8 ? 2 : 0;
    return *(*text)++ == ':';
}

static bool set_obs(struct mf_layout *l, const char *text)
{
    for (*l = (struct mf_layout){0};; text++) {
        struct mf_obs o = {0};
        if (!set_shape(&o, &text))
            return false;
        char name[2 * sizeof o.name];
        if (mf_unescape(NULL, text, ",") >= sizeof name)
            return false;
        text += mf_unescape(name, text, ",");
        if (mf_obs_name_fault(name))
            return false;
        strcpy(o.name, name);
        if (!mf_layout_add(l, &o))
            return false;
        if (!*text)
            return true;
    }
}

static bool set_word(int *to, const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text)) {
            *to = i;
            return true;
        }
    return false;
}

static bool set_name(char to[64], const char *text)
{
    bool good = strlen(text) < 64;
    for (const char *c = text; *c; c++)
        good = good && (unsigned char)*c >= ' ';
    if (good)
        strcpy(to, text);
    return good;
}

static bool set_float(float *to, const char *text)
{
    char *end;
    *to = strtof(text, &end);
    return end != text && !*end && isfinite(*to) && *to >= 0;
}

int mf_spec_set(struct mf_policy_spec *s, const struct mf_spec_field *f, const char *text, const char *where,
                struct mf_err *err)
{
    static const char *const truth[] = {"false", "true", NULL};
    char *p = (char *)s + f->at;
    const char *rest = text;
    int word = 0;
    bool good = false;
    switch (f->form) {
    case MF_SPEC_INT:
        *(int *)p = integer(&rest);
        good = *(int *)p >= 0 && !*rest;
        break;
    case MF_SPEC_FLOAT:
        good = set_float((float *)p, text);
        break;
    case MF_SPEC_BOOL:
        good = set_word(&word, truth, text);
        *(bool *)p = word;
        break;
    case MF_SPEC_WORD:
    case MF_SPEC_LATER_WORD:
        good = set_word((int *)p, f->words, text);
        break;
    case MF_SPEC_WIDTHS:
        good = set_widths((int *)p, (int *)((char *)s + f->count), text);
        break;
    case MF_SPEC_NET:
        if (mf_net_find(&s->net.net, text, err))
            return mf_err_at(err, "%s", where);
        good = true;
        break;
    case MF_SPEC_OBS:
        good = set_obs(&s->obs, text);
        break;
    case MF_SPEC_NAME:
        good = set_name(p, text);
    }
    return good ? 0 : mf_err_set(err, MF_EFORMAT, "%s: the policy's %s cannot be '%.100s'", where, f->name, text);
}

void mf_spec_copy(struct mf_policy_spec *to, const struct mf_policy_spec *from, const struct mf_spec_field *f)
{
    char text[MF_SPEC_TEXT];
    struct mf_err never;
    mf_spec_text(from, f, text);
    mf_spec_set(to, f, text, "", &never);
}

bool mf_spec_same(const struct mf_spec_field *f, const char *x, const char *y)
{
    return !strcmp(x, y) || (f->form == MF_SPEC_NAME && (!*x || !*y));
}

int mf_spec_agree(const struct mf_policy_spec *a, const char *a_name, const struct mf_policy_spec *b,
                  const char *b_name, bool all, struct mf_err *err)
{
    char x[MF_SPEC_TEXT], y[MF_SPEC_TEXT];
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(a, f));) {
        mf_spec_text(a, f, x);
        mf_spec_text(b, f, y);
        if (!mf_spec_same(f, x, y) && (all || f->learned))
            return mf_err_set(err, MF_EUSAGE, "%s is %.120s in %.90s and %.120s in %.90s", f->key ? f->key : f->name, x,
                              a_name, y, b_name);
    }
    return 0;
}
