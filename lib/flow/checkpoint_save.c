#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "flow/base.h"
#include "flow/checkpoint.h"
#include "flow/checkpoint_priv.h"
#include "flow/fields.h"

const char *const mf_group_names[MF_GROUPS] = {"policy", "critic", "noise", "encoder", "steer", "buffer"};

int mf_param_shape(const struct mf_param *p, size_t dim[4])
{
    const size_t rows = (size_t)p->rows, cols = (size_t)p->cols, kernel = (size_t)(p->kernel ? p->kernel : 1),
                 kh = (size_t)p->window[0], kw = (size_t)p->window[1], in = p->rank == 4 ? cols / (kh * kw) : 0;
    const size_t shape[5][4] = {
        {cols, 1, 1, 1}, {rows, cols, 1, 1}, {1, rows, cols, 1}, {rows, kh, kw, in}, {rows, cols / kernel, kernel, 1}};
    memcpy(dim, shape[p->kernel ? 4 : p->rank - 1], sizeof *shape);
    return p->rank;
}

void mf_norm_parts(const struct mf_policy *p, struct mf_norm_part part[4])
{
    part[0] = (struct mf_norm_part){"normalizer.params_dict.obs.scale", p->obs_scale, mf_layout_features(&p->spec.obs)};
    part[1] =
        (struct mf_norm_part){"normalizer.params_dict.obs.offset", p->obs_offset, mf_layout_features(&p->spec.obs)};
    part[2] = (struct mf_norm_part){"normalizer.params_dict.action.scale", p->action_scale, p->spec.action_dim};
    part[3] = (struct mf_norm_part){"normalizer.params_dict.action.offset", p->action_offset, p->spec.action_dim};
}

struct content {
    struct mf_array *tensors;
    struct mf_meta *meta;
    int n, n_meta;
    bool long_name;
};

static void add_tensor(struct content *c, const char *before, const char *name, const char *after, enum mf_dtype dtype,
                       int rank, const size_t *dim, const void *data)
{
    c->tensors = mf_xrealloc(c->tensors, (size_t)c->n + 1, sizeof *c->tensors);
    struct mf_array *a = &c->tensors[c->n++];
    *a = (struct mf_array){.dtype = dtype, .rank = rank, .count = 1, .data = (void *)(uintptr_t)data};
    for (int i = 0; i < rank; i++)
        a->count *= a->dim[i] = dim[i];
    a->bytes = a->count * mf_dtype_size(dtype);
    c->long_name |= snprintf(a->name, sizeof a->name, "%s%s%s", before, name, after) >= MF_NAME_MAX;
}

static void add_param(struct content *c, const char *before, const struct mf_param *p, const char *after,
                      const float *values)
{
    size_t dim[4];
    int rank = mf_param_shape(p, dim);
    add_tensor(c, before, p->name, after, MF_F32, rank, dim, values ? values + p->at : NULL);
}

/* A weight; as it stands in a file, bf16, or as floats. */
static void add_weight(struct content *c, const struct mf_checkpoint *from, const struct mf_param *p)
{
    add_param(c, "", p, "", p->bf16 ? NULL : from->policy->params.value);
    struct mf_array *a = &c->tensors[c->n - 1];
    if (!p->bf16 && !(from->bf16 && from->bf16(from->origin->self, p)))
        return;
    a->data = (void *)(uintptr_t)p->bf16;
    a->dtype = MF_BFLOAT;
    a->bytes = a->count * mf_dtype_size(a->dtype);
}

static void add_meta(struct content *c, const char *group, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add_meta(struct content *c, const char *group, const char *key, const char *fmt, ...)
{
    char name[128], value[MF_SPEC_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    c->long_name |= snprintf(name, sizeof name, "%s%s", group, key) >= (int)sizeof name;
    c->meta = mf_xrealloc(c->meta, (size_t)c->n_meta + 1, sizeof *c->meta);
    c->meta[c->n_meta++] = (struct mf_meta){mf_xstrdup(name), mf_xstrdup(value)};
}

static void add_number(struct content *c, const char *key, double v)
{
    char text[MF_NUMBER];
    add_meta(c, "", key, "%s", mf_number_double(text, v));
}

/* NULL for state that is divided among ranks: it is collected while writing. */
static const float *here(const struct mf_adam *adam, const float *state)
{
    return mf_adam_spread(adam) ? NULL : state;
}

static void add_moments(struct content *c, const struct mf_params *ps, int i, const struct mf_adam *adam)
{
    const struct mf_param *p = &ps->p[i];
    if (!adam || !mf_param_trained(ps, i))
        return;
    add_param(c, "opt/", p, "/m", here(adam, adam->m));
    add_param(c, "opt/", p, "/v", here(adam, adam->v));
}

static void add_side(struct content *c, const struct mf_side *s)
{
    for (int i = 0; s && i < s->params->n; i++) {
        const struct mf_param *p = &s->params->p[i];
        add_param(c, "", p, "", s->params->value);
        add_param(c, "ema/", p, "", here(s->adam, s->adam->ema));
        add_moments(c, s->params, i, s->adam);
    }
}

static void add_weights(struct content *c, const struct mf_checkpoint *from, bool leaves)
{
    const struct mf_params *ps = &from->policy->params;
    struct mf_norm_part norm[4];
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        if (!(leaves && p->bf16))
            add_weight(c, from, p);
        if ((from->ema || from->origin_ema) && mf_has_average(ps, i))
            add_param(c, "ema/", p, "", here(from->adam, from->ema));
        add_moments(c, ps, i, from->adam);
    }
    add_side(c, from->side);
    mf_norm_parts(from->policy, norm);
    for (int i = 0; i < 4; i++)
        add_tensor(c, norm[i].name, "", "", MF_F32, 1, &(size_t){(size_t)norm[i].n}, norm[i].value);
    for (int i = 0; i < from->n_states; i++)
        add_tensor(c, "state/", from->states[i].src, "", MF_U8, 1, &from->states[i].size, from->states[i].bytes);
}

static void add_steps(struct content *c, const struct mf_params *ps, const struct mf_adam *adam)
{
    for (int g = 0; g < MF_GROUP_BUFFER && adam; g++)
        if (mf_params_count(ps, (enum mf_group)g) && !(ps->frozen >> g & 1))
            add_meta(c, "adam.", mf_group_names[g], "%" PRId64, adam->step[g]);
}

static void add_frozen(struct content *c, const struct mf_params *ps)
{
    char text[MF_SPEC_TEXT] = "";
    for (int g = 0; g < MF_GROUPS; g++)
        if ((ps->frozen >> g & 1) && mf_params_count(ps, (enum mf_group)g))
            mf_list_add(text, sizeof text, ",", mf_group_names[g]);
    if (*text)
        add_meta(c, "", "frozen", "%s", text);
}

static void add_facts(struct content *c, const struct mf_checkpoint *from)
{
    const struct mf_policy *p = from->policy;
    char text[MF_SPEC_TEXT];
    add_meta(c, "", "format", MF_CHECKPOINT_FORMAT);
    add_meta(c, "", "kind", "%s", from->kind);
    add_meta(c, "", "version", "%" PRId64, p->version);
    add_meta(c, "", "iter", "%" PRId64, p->iter);
    add_meta(c, "", "global_step", "%" PRId64, p->global_step);
    add_number(c, "noise_low", p->noise_low);
    add_number(c, "noise_high", p->noise_high);
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(&p->spec, f));) {
        mf_spec_text(&p->spec, f, text);
        add_meta(c, "spec.", f->name, "%s", text);
    }
    add_frozen(c, &p->params);
    add_steps(c, &p->params, from->adam);
    if (from->side)
        add_steps(c, from->side->params, from->side->adam);
    if (from->before)
        add_number(c, "extra.noise_before", *from->before);
    for (int i = 0; i < from->n_extra; i++)
        add_meta(c, "extra.", from->extra[i][0], "%s", from->extra[i][1]);
}

/* The base beside the checkpoint: a link, unless it is there. hex: its digest, or "" where the base is one of the
 * checkpoints there, which do not stay. */
static int link_base(const char *path, const struct mf_loaded *l, char hex[17], struct mf_err *err)
{
    char from[4096], to[4096], *real;
    mf_loaded_base(l, from, sizeof from, hex);
    mf_base_path(path, to, sizeof to);
    if (!(real = realpath(from, NULL)))
        return mf_err_errno(err, "cannot find %s", from);
    char *folder = mf_xstrdup(to);
    *(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = '\0';
    char *beside = realpath(*folder ? folder : ".", NULL);
    const size_t n = beside ? strlen(beside) : 0;
    const bool own = beside && !strncmp(real, beside, n) && real[n] == '/' && !strchr(real + n + 1, '/');
    int rc = 0;
    if (own && strcmp(real + n + 1, MF_BASE) != 0)
        *hex = '\0';
    else if (!own && symlink(real, to) < 0 && errno != EEXIST)
        rc = mf_err_errno(err, "cannot link %s to %s", to, real);
    free(folder), free(beside), free(real);
    return rc;
}

/* Of a parameter's moment or average, numbers that several ranks have, to the one that writes. */
static int collect(void *self, const struct mf_array *a, size_t first, size_t n, void *to, struct mf_err *err)
{
    const struct mf_checkpoint *from = self;
    const struct mf_params *ps = &from->policy->params;
    const struct mf_adam *adam = from->adam;
    const bool average = mf_starts(a->name, "ema/");
    char name[MF_NAME_MAX];
    const size_t length = strlen(a->name) - 4 - (average ? 0 : 2); /* without "opt/" and "/m" */
    snprintf(name, sizeof name, "%.*s", (int)length, a->name + 4);
    if (mf_starts(name, MF_SIDE))
        ps = from->side->params, adam = from->side->adam;
    const float *of = average ? adam->ema : mf_ends(a->name, "/m") ? adam->m : adam->v;
    return mf_adam_collect(adam, of, ps->p[mf_param_find(ps, name)].at + first, n, to, err);
}

/* Several ranks that step write together. */
static int write_content(const char *path, const struct mf_checkpoint *from, struct content *c, struct mf_err *err)
{
    const struct mf_origin all = {collect, (void *)(uintptr_t)from};
    if (!mf_adam_leads(from->adam))
        return mf_safetensors_pass(c->tensors, c->n, &all, err);
    return mf_safetensors_copy(path, c->tensors, c->n, c->meta, c->n_meta,
                               mf_adam_spread(from->adam) ? &all : from->origin, err);
}

int mf_checkpoint_save(const char *path, const struct mf_checkpoint *from, struct mf_err *err)
{
    struct content c = {.n = 0};
    char base[17] = "";
    int rc = 0;
    if (!from->policy->has_normalizer)
        return mf_err_set(err, MF_EUSAGE, "%s is not written: the policy has no normaliser", path);
    if (from->policy->spec.obs.n == 0)
        return mf_err_set(err, MF_EUSAGE, "%s is not written: the policy's observations have no names", path);
    if (from->leaves && from->policy->base && mf_adam_leads(from->adam) &&
        (rc = link_base(path, from->policy->base, base, err)))
        return rc;
    add_weights(&c, from, *base);
    add_facts(&c, from);
    if (*base)
        add_meta(&c, "", MF_BASE, "%s", base);
    if (c.long_name)
        rc =
            mf_err_set(err, MF_EUSAGE, "%s is not written: a name in it has more than %d bytes", path, MF_NAME_MAX - 1);
    else
        rc = write_content(path, from, &c, err);
    for (int i = 0; i < c.n_meta; i++) {
        free((void *)(uintptr_t)c.meta[i].key);
        free((void *)(uintptr_t)c.meta[i].value);
    }
    free(c.meta);
    free(c.tensors);
    return rc;
}

double mf_checkpoint_bytes(const struct mf_checkpoint *from)
{
    struct content c = {.n = 0};
    double bytes = 0;
    add_weights(&c, from, from->leaves && from->policy->base);
    for (int i = 0; i < c.n; i++)
        bytes += (double)c.tensors[i].bytes;
    free(c.tensors);
    return bytes;
}

struct mf_array *mf_weights_alone(const struct mf_safetensors *f, bool average, int *n)
{
    struct mf_array *t = mf_xcalloc((size_t)f->n + 1, sizeof *t);
    int taken = 0;
    *n = 0;
    for (int i = 0; i < f->n; i++) {
        const struct mf_array *a = &f->tensors[i];
        char name[MF_NAME_MAX + 4];
        snprintf(name, sizeof name, "ema/%s", a->name);
        const struct mf_array *e = average ? mf_safetensors_find(f, name) : NULL;
        if (mf_starts(a->name, "ema/") || mf_starts(a->name, "opt/") || mf_starts(a->name, "state/") ||
            mf_starts(a->name, MF_SIDE))
            continue;
        t[*n] = *a;
        if (e && e->bytes == a->bytes) {
            t[*n].data = e->data;
            taken++;
        }
        ++*n;
    }
    if (!average || taken)
        return t;
    free(t);
    return NULL;
}
