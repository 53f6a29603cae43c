#include "flow/fields.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "nn/encoder.h"

/* clang-format off */
#define AT(member) offsetof(struct mf_policy_spec, member)
#define AT_INT(in, member)    AT(in member)
#define AT_FLOAT(in, member)  AT(in member)
#define AT_BOOL(in, member)   AT(in member)
#define AT_CHOICE(in, member) AT(in member)
#define AT_INTS(in, member)   AT(in n_##member)
enum { FREE, LEARNED };

/* Every field once, in the order of heads. */
const struct mf_spec_field mf_spec_fields[] = {
    {"obs", NULL, MF_SPEC_OBS, AT(obs), .learned = true},
    {"action_dim", NULL, MF_SPEC_INT, AT(action_dim), .learned = true},
#define SPEC(key, name, member, is_learned, type, def, choice, ...)                                                    \
    {#name, "policy." #key, MF_SPEC_##type, AT_##type(, member), choice, .learned = is_learned},
#include "conf/policy.inc"
#define PROMPT(key, member, type, def, choice, ...)                                                                    \
    {#key, "policy." #key, MF_SPEC_##type, AT_##type(, member), choice, .learned = true, .prompt = true, .absent = def},
#include "conf/policy.inc"
#define PICTURE(key, member, type, def, choice, ...)                                                                   \
    {#key, "policy." #key, MF_SPEC_##type, AT_##type(, member), choice, .learned = true, .picture = true, .absent = def},
#include "conf/policy.inc"
#define FPO(key, member, type, def, choice, ...)                                                                       \
    {#key, "policy." #key, MF_SPEC_##type, AT_##type(, member), choice, .learned = false, .fpo = true},
#include "conf/policy.inc"
#define STEER(key, member, type, def, choice, ...)                                                                     \
    {#key, "policy." #key, MF_SPEC_##type, AT_##type(, member), choice, .steer = true, .absent = def},
#include "conf/policy.inc"
    {"network", "policy.network", MF_SPEC_NET, AT(net.net), .learned = true},
    {"encoder", "policy.encoder", MF_SPEC_ENCODER, AT(net.encoder), .learned = true},
#define STEP(key, member, type, def, choice, ...)                                                                      \
    {#key, "policy." #key, MF_SPEC_##type, AT_##type(, member), choice, .learned = true, .step = true, .absent = def},
#define SIZE(key, member, is_learned, type, def, choice, ...)                                                          \
    {#key, "policy." #key, MF_SPEC_##type, AT_##type(net., member), choice, .learned = is_learned, .size = MF_SIZE(key)},
#include "conf/policy.inc"
#define WIDTHS(key, member, ...) {#key, "policy." #key, MF_SPEC_INTS, AT_INTS(, member), .learned = false},
#include "conf/policy.inc"
    {"env", "env.name", MF_SPEC_NAME, AT(env), .absent = ""},
    {"tokenizer", "policy.tokenizer", MF_SPEC_NAME, AT(tokenizer), .learned = true, .prompt = true, .absent = ""},
};
/* clang-format on */
const int mf_spec_n = sizeof mf_spec_fields / sizeof *mf_spec_fields;

/* The keys that its network and its encoder read. */
static uint64_t sizes_of(const struct mf_net_spec *s)
{
    const bool coded = s->encoder && s->encoder != &mf_encoder_none;
    return (s->net ? s->net->sizes | (coded ? s->net->coded_sizes : 0) : 0) | (coded ? s->encoder->sizes : 0);
}

const struct mf_spec_field *mf_spec_next(const struct mf_policy_spec *s, const struct mf_spec_field *f)
{
    const struct mf_net *net = s->net.net;
    for (f = f ? f + 1 : mf_spec_fields; f < mf_spec_fields + mf_spec_n; f++)
        if ((!f->size || f->size & sizes_of(&s->net)) && (!f->step || (net && net->step_size)) &&
            (!f->prompt || mf_layout_find(&s->obs, MF_OBS_TOKENS)) && (!f->picture || mf_layout_pictures(&s->obs)) &&
            (!f->fpo || mf_policy_is_fpo(s)) && (!f->steer || s->steer || f->at == AT(steer)) &&
            (f->form != MF_SPEC_ENCODER || mf_layout_pictures(&s->obs)))
            return f;
    return NULL;
}

/* The words of an enum, by value. The keys of the first two offer only some of them. */
static const char *words_of(const struct mf_spec_field *f)
{
    return f->at == AT(net.act)        ? "none|relu|mish|tanh|silu|gelu|gelu_erf"
           : f->at == AT(noise_method) ? "none|flow_noise|flow_sde|flow_cps"
                                       : f->words;
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

void mf_spec_add_ints(char text[MF_SPEC_TEXT], const int *v, int n)
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
    case MF_SPEC_CHOICE: {
        int n;
        const char *word = mf_word_at(words_of(f), *(const int *)p, &n);
        mf_spec_add(text, "%.*s", n, word);
        break;
    }
    case MF_SPEC_INTS:
        mf_spec_add_ints(text, (const int *)p + 1, *(const int *)p);
        break;
    case MF_SPEC_NET:
        mf_spec_add(text, "%s", s->net.net->name);
        break;
    case MF_SPEC_ENCODER:
        mf_spec_add(text, "%s", s->net.encoder ? s->net.encoder->name : mf_encoder_none.name);
        break;
    case MF_SPEC_NAME:
        mf_spec_add(text, "%s", p);
        break;
    case MF_SPEC_OBS:
        for (int i = 0; i < s->obs.n; i++) {
            const struct mf_obs *o = &s->obs.key[i];
            char name[2 * sizeof o->name]; /* an unescaped comma ends a name */
            for (int k = 0; k < mf_obs_rank(o); k++)
                mf_spec_add(text, "%s%d", k ? "x" : i ? "," : "", o->dim[k]);
            mf_spec_add(text, "%s:%s", o->u8 ? "u8" : "", mf_escape(name, o->name, ","));
        }
    }
}

const char *mf_spec_value(const struct mf_policy_spec *s, const char *field, char text[MF_SPEC_TEXT])
{
    const struct mf_spec_field *f = mf_spec_fields;
    while (strcmp(f->name, field))
        f++;
    mf_spec_text(s, f, text);
    return text;
}

/* ---- from text ---- */

/* Parses an integer in [0, most] and moves *s past it. -1: there is none. */
static int integer(const char **s, long most)
{
    char *end;
    errno = 0;
    long v = **s >= '0' && **s <= '9' ? strtol(*s, &end, 10) : -1;
    if (v < 0 || v > most || errno)
        return -1;
    *s = end;
    return (int)v;
}

/* "[256,256]"; a configuration writes "[256, 256]". */
static bool set_ints(int *n, int v[MF_DIMS_MAX], const char *text)
{
    *n = 0;
    if (*text++ != '[')
        return false;
    if (!strcmp(text, "]"))
        return true;
    for (; *n < MF_DIMS_MAX; text += 1 + (text[1] == ' ')) {
        v[*n] = integer(&text, MF_SPEC_DIM_MAX);
        if (v[(*n)++] < 1)
            return false;
        if (*text != ',')
            return !strcmp(text, "]");
    }
    return false;
}

/* "1024x6:" or "64x64x3u8:", with at most MF_OBS_MAX numbers. */
static bool set_shape(struct mf_obs *o, const char **text)
{
    int64_t size = 1;
    for (int k = 0; k < MF_OBS_RANK; k++) {
        size *= o->dim[k] = integer(text, MF_OBS_MAX);
        if (o->dim[k] < 1 || size > MF_OBS_MAX)
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

static bool set_choice(int *to, const char *words, const char *text)
{
    const int i = mf_word_find(words, text);
    *to = i < 0 ? *to : i;
    return i >= 0;
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
    *to = (float)strtod(text, &end); /* rounded as a configuration's number is */
    return end != text && !*end && isfinite(*to) && *to >= 0;
}

/* Are all v in the range of the field's key, "[1,64]"? A head or a file may say anything. */
static bool within(const struct mf_spec_field *f, int n, const int *v)
{
    int low = 0, high = MF_SPEC_DIM_MAX;
    if (f->words)
        sscanf(f->words, "[%d,%d]", &low, &high);
    for (int i = 0; i < n; i++)
        if (v[i] < low || v[i] > high)
            return false;
    return true;
}

int mf_spec_set(struct mf_policy_spec *s, const struct mf_spec_field *f, const char *text, const char *where,
                struct mf_err *err)
{
    char *p = (char *)s + f->at;
    const char *rest = text;
    int word = 0;
    bool good = false;
    switch (f->form) {
    case MF_SPEC_INT:
        *(int *)p = integer(&rest, MF_SPEC_DIM_MAX);
        good = *(int *)p >= 0 && !*rest && within(f, 1, (int *)p);
        break;
    case MF_SPEC_FLOAT:
        good = set_float((float *)p, text);
        break;
    case MF_SPEC_BOOL:
        good = set_choice(&word, "false|true", text);
        *(bool *)p = word;
        break;
    case MF_SPEC_CHOICE:
        good = set_choice((int *)p, words_of(f), text);
        break;
    case MF_SPEC_INTS:
        good = set_ints((int *)p, (int *)p + 1, text) && within(f, *(int *)p, (int *)p + 1);
        break;
    case MF_SPEC_NET:
        if (mf_net_find(&s->net.net, text, err))
            return mf_err_at(err, "%s", where);
        good = true;
        break;
    case MF_SPEC_ENCODER:
        if (mf_encoder_find(&s->net.encoder, text, err))
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
