/* checkpoint_load.c - a checkpoint's tensors, to a policy, its average and its optimiser. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/smaller.h"
#include "base/text.h"
#include "flow/checkpoint.h"
#include "flow/checkpoint_priv.h"
#include "flow/fields.h"
#include "flow/mismatches.h"

/* ---- mismatches ---- */

/* The tensor before+name+after if it has p's shape; otherwise NULL, and a mismatch is noted in m unless that is NULL.
 */
static const struct mf_array *tensor_of(const struct mf_loaded *l, const char *before, const struct mf_param *p,
                                        const char *after, struct mf_mismatches *m)
{
    char name[MF_NAME_MAX + 16];
    snprintf(name, sizeof name, "%s%s%s", before, p->name, after);
    const struct mf_array *a = mf_safetensors_find(&l->file, name);
    size_t dim[4];
    int rank = mf_param_shape(p, dim);
    const bool number = a && (a->dtype == MF_F32 || a->dtype == MF_BFLOAT);
    bool fits = number && a->rank == rank && !memcmp(a->dim, dim, (size_t)rank * sizeof *dim);
    if (fits)
        return a;
    if (m && !a)
        mf_mismatch(m, "%s is missing", name);
    else if (m && number)
        mf_mismatch_shape(m, name, a->rank, a->dim, rank, dim);
    else if (m)
        mf_mismatch(m, "%s is %s and should be float32", name, mf_dtype_name(a->dtype));
    return NULL;
}

/* The name of the parameter to which a tensor belongs. */
static const char *owner(const char *name, char *room)
{
    size_t n = strlen(name);
    if (mf_starts(name, "ema/"))
        return name + 4;
    if (!mf_starts(name, "opt/") || n < 7)
        return name;
    memcpy(room, name + 4, n - 6); /* without /m or /v */
    room[n - 6] = 0;
    return room;
}

static bool begins(const char *param, const char *const *parts)
{
    while (*parts && !mf_starts(param, *parts))
        parts++;
    return *parts;
}

/* The critic, the noise network and the latent actor are left where the policy has none, and those of a clone, which
 * are untrained. */
static bool is_left(const struct mf_loaded *l, const struct mf_policy_spec *s, const char *param)
{
    static const char *const critic[] = {"critic.", "value_head.", "attention_pool.", NULL},
                             *const noise[] = {"explore_noise_net.", "noise_head.", NULL},
                             *const steer[] = {"latent_actor.", NULL};
    return ((l->clone || !s->n_critic) && begins(param, critic)) ||
           ((l->clone || !s->learned_noise) && begins(param, noise)) || (!s->steer && begins(param, steer));
}

static void find_left_over(const struct mf_loaded *l, const struct mf_policy *p, struct mf_mismatches *m)
{
    char room[MF_NAME_MAX];
    for (int i = 0; i < l->file.n; i++) {
        const char *name = l->file.tensors[i].name, *param = owner(name, room);
        if (mf_param_find(&p->params, param) < 0 && !is_left(l, &p->spec, param) && !mf_starts(param, MF_SIDE) &&
            !mf_starts(name, "normalizer.") && !mf_starts(name, "state/"))
            mf_mismatch(m, "%s is left over", name);
    }
}

/* ---- load ---- */

/* Of the file: what was frozen has no average, and is its own. */
static bool averaged(const struct mf_loaded *l, const struct mf_param *p)
{
    return mf_is_averaged(p->group) && !(l->frozen >> p->group & 1);
}

static bool has_ema(const struct mf_loaded *l, const struct mf_params *ps)
{
    for (int i = 0; i < ps->n; i++)
        if (averaged(l, &ps->p[i]))
            return tensor_of(l, "ema/", &ps->p[i], "", NULL) != NULL;
    return false;
}

static void copy(float *to, const struct mf_array *a)
{
    mf_array_floats(a, 0, a->count, to);
}

/* A clone's critic and noise net are untrained, and only a steered policy has a latent actor. They may be missing or
 * have another shape: then `to` keeps its values. */
static void load_weights(const struct mf_loaded *l, const struct mf_params *ps, bool ema, float *to,
                         struct mf_mismatches *m)
{
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        bool learned = mf_is_averaged(p->group);
        const bool fresh = (l->clone && !learned) || (p->group == MF_GROUP_STEER && !l->spec.steer);
        const struct mf_array *a = tensor_of(l, ema && averaged(l, p) ? "ema/" : "", p, "", fresh ? NULL : m);
        if (a && to && !p->bf16)
            copy(to + p->at, a);
    }
}

/* What a policy uses from its base may not be something else in the file that it loads. */
static void find_other(const struct mf_loaded *l, const struct mf_policy *p, bool ema, struct mf_mismatches *m)
{
    for (int i = 0; i < p->params.n && p->base && strcmp(l->path, p->base->path) != 0; i++) {
        const struct mf_param *q = &p->params.p[i];
        const struct mf_array *a = q->bf16 ? tensor_of(l, ema && averaged(l, q) ? "ema/" : "", q, "", NULL) : NULL;
        if (a && (a->dtype != MF_BFLOAT || memcmp(a->data, q->bf16, a->bytes) != 0))
            mf_mismatch(m, "%s is another than in %s, which is used frozen", q->name, p->base->path);
    }
}

/* Frozen matrices that the file has as bf16 are left there, in a mapping of p's own. */
static int keep(const struct mf_loaded *l, struct mf_policy *p, enum mf_weights which, struct mf_err *err)
{
    struct mf_params *ps = &p->params;
    const bool ema = mf_loaded_uses_ema(l, ps, which);
    int rc = mf_checkpoint_open(&p->base, l->path, err), kept = 0;
    for (int i = 0; rc == 0 && i < ps->n; i++) {
        const struct mf_param *q = &ps->p[i];
        const struct mf_array *a = tensor_of(p->base, ema && averaged(l, q) ? "ema/" : "", q, "", NULL);
        if (!a || a->dtype != MF_BFLOAT || q->rows == 1 || !(ps->frozen >> q->group & 1))
            continue;
        mf_param_keep(ps, i, a->data);
        kept++;
    }
    if (rc == 0 && !kept) {
        mf_checkpoint_close(p->base);
        p->base = NULL;
    }
    return rc;
}

enum { SAMPLE = 1024 }; /* numbers */

static void digest_frozen(const struct mf_loaded *l, struct mf_policy *p, enum mf_weights which)
{
    const struct mf_params *ps = &p->params;
    const bool ema = mf_loaded_uses_ema(l, ps, which);
    uint64_t h = 0;
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *q = &ps->p[i];
        const struct mf_array *a = tensor_of(l, ema && averaged(l, q) ? "ema/" : "", q, "", NULL);
        float some[2 * SAMPLE];
        if (!a || !(ps->frozen >> q->group & 1))
            continue;
        const size_t n = a->count < SAMPLE ? a->count : SAMPLE;
        mf_array_floats(a, 0, n, some);
        mf_array_floats(a, a->count - n, n, some + n);
        h = (h ^ mf_text_hash(q->name)) * 0x100000001b3;
        h = (h ^ mf_bytes_hash(some, 2 * n * sizeof *some)) * 0x100000001b3;
    }
    if (h)
        snprintf(p->frozen, sizeof p->frozen, "%016jx", (uintmax_t)h);
}

int mf_loaded_outline(const struct mf_loaded *l, struct mf_policy *p, const struct mf_policy_spec *spec,
                      unsigned frozen, bool in_place, enum mf_weights which, struct mf_err *err)
{
    int rc = mf_policy_outline(p, spec, err);
    if (rc)
        return rc;
    mf_params_freeze(&p->params, frozen);
    if (!l || !frozen)
        return 0;
    digest_frozen(l, p, which);
    if (in_place && (rc = keep(l, p, which, err)))
        mf_policy_release(p);
    return rc;
}

static int load_normalizer(const struct mf_loaded *l, struct mf_policy *p, bool really, struct mf_err *err)
{
    struct mf_norm_part part[4];
    mf_norm_parts(p, part);
    for (int i = 0; i < 4; i++) {
        const struct mf_array *a = mf_safetensors_find(&l->file, part[i].name);
        if (!a)
            return mf_err_set(err, MF_EFORMAT,
                              "%s holds a policy without its normaliser: add the tensors normalizer.params_dict.{obs,"
                              "action}.{scale,offset} of the data that it was trained on (scale 1 and offset 0 where "
                              "that was not normalised)",
                              l->path);
        if (a->dtype != MF_F32 || a->rank != 1 || a->dim[0] != (size_t)part[i].n)
            return mf_err_set(err, MF_EFORMAT, "%s of %s is not %d float32 numbers", part[i].name, l->path, part[i].n);
        if (really)
            copy(part[i].value, a);
    }
    return 0;
}

/* The first number of an array that is not finite, or is below `least`, to *value. Returns its place; a->count: none.
 */
static size_t find_bad(const struct mf_array *a, double least, double *value)
{
    float some[1024];
    for (size_t at = 0, n; at < a->count; at += n) {
        n = mf_smaller(a->count - at, 1024);
        mf_array_floats(a, at, n, some);
        for (size_t j = 0; j < n; j++)
            if (*value = (double)some[j], !isfinite(*value) || *value < least)
                return at + j;
    }
    return a->count;
}

/* NaN is no fault that shows: a ReLU of an encoder makes 0 of it. */
static int check_weights(const struct mf_loaded *l, const struct mf_params *ps, bool ema, struct mf_err *err)
{
    for (int i = 0; i < ps->n; i++) {
        const char *before = ema && averaged(l, &ps->p[i]) ? "ema/" : "";
        const struct mf_array *a = tensor_of(l, before, &ps->p[i], "", NULL);
        struct mf_array same;
        double value;
        if (a && ps->p[i].bf16) { /* find_other has found both equal: read one mapping, not two */
            same = *a;
            same.data = (void *)(uintptr_t)ps->p[i].bf16;
            a = &same;
        }
        const size_t bad = a ? find_bad(a, -INFINITY, &value) : 0;
        if (a && bad < a->count)
            return mf_err_set(err, MF_EFORMAT, "%s: number %zu of %s%s is %g", l->path, bad, before, ps->p[i].name,
                              value);
    }
    return 0;
}

bool mf_loaded_uses_ema(const struct mf_loaded *l, const struct mf_params *ps, enum mf_weights which)
{
    return which == MF_WEIGHTS_EMA || (which == MF_WEIGHTS_AUTO && l->clone && has_ema(l, ps));
}

int mf_loaded_policy(const struct mf_loaded *l, struct mf_policy *p, enum mf_weights which, struct mf_err *err)
{
    struct mf_mismatches m = {.n = 0};
    bool ema = mf_loaded_uses_ema(l, &p->params, which);
    int rc = mf_spec_agree(&l->spec, l->path, &p->spec, "the policy", false, err);
    if (rc)
        return rc;
    if (ema && !has_ema(l, &p->params))
        return mf_err_set(err, MF_EUSAGE, "%s has no EMA weights: policy.weights=raw loads the trained ones", l->path);
    load_weights(l, &p->params, ema, NULL, &m);
    find_left_over(l, p, &m);
    find_other(l, p, ema, &m);
    if ((rc = mf_mismatches_end(l->path, &m, err)) || (rc = check_weights(l, &p->params, ema, err)) ||
        (rc = load_normalizer(l, p, false, err)))
        return rc;
    load_weights(l, &p->params, ema, p->params.value, NULL);
    load_normalizer(l, p, true, err);
    p->has_normalizer = true;
    p->version = l->version;
    p->iter = l->iter;
    p->global_step = l->global_step;
    if (!l->clone)
        mf_policy_set_noise(p, l->noise_low, l->noise_high);
    mf_params_touch(&p->params);
    return 0;
}

/* Invalid optimiser state would spoil the run silently, steps later: Adam divides by the root of v. */
static int check_resumed(const struct mf_loaded *l, const struct mf_array *a, double least, struct mf_err *err)
{
    double value;
    const size_t bad = find_bad(a, least, &value);
    return bad == a->count
               ? 0
               : mf_err_set(err, MF_EFORMAT,
                            "%s cannot be resumed: number %zu of %s is %g; resume from an earlier checkpoint (mf-ckpt "
                            "verify finds one), or start from its weights alone (policy.checkpoint)",
                            l->path, bad, a->name, value);
}

/* before/NAME/after of the trained parameters, or NAME where the file has no average of it: the part that `a` has. */
static int load_state(const struct mf_loaded *l, const struct mf_params *ps, const char *before, const char *after,
                      double least, const struct mf_adam *a, float *to, struct mf_err *err)
{
    struct mf_mismatches m = {.n = 0};
    int rc = 0;
    for (int i = 0; rc == 0 && i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        const bool of = *after || mf_starts(p->name, MF_SIDE) || averaged(l, p);
        const struct mf_array *t = mf_param_trained(ps, i) ? tensor_of(l, of ? before : "", p, after, &m) : NULL;
        size_t skip, n = t ? mf_adam_part(a, p->at, t->count, &skip) : 0;
        rc = t && of ? check_resumed(l, t, least, err) : 0;
        if (n)
            mf_array_floats(t, skip, n, to + (p->at + skip - a->first));
    }
    return mf_mismatches_end(l->path, &m, err) ? err->code : rc;
}

int mf_loaded_ema(const struct mf_loaded *l, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err)
{
    return load_state(l, ps, "ema/", "", -INFINITY, a, a->ema, err);
}

int mf_loaded_side(const struct mf_loaded *l, const struct mf_side *s, struct mf_err *err)
{
    struct mf_mismatches m = {.n = 0};
    int rc = 0;
    for (int i = 0; i < s->params->n; i++) {
        const struct mf_param *p = &s->params->p[i];
        const struct mf_array *a = tensor_of(l, "", p, "", &m);
        if (a && rc == 0 && (rc = check_resumed(l, a, -INFINITY, err)) == 0)
            copy(s->params->value + p->at, a);
    }
    rc = mf_mismatches_end(l->path, &m, err) ? err->code : rc;
    rc = rc ? rc : mf_loaded_ema(l, s->params, s->adam, err);
    rc = rc ? rc : mf_loaded_adam(l, s->params, s->adam, err);
    mf_params_touch(s->params);
    mf_adam_touch(s->adam);
    return rc;
}

int mf_loaded_adam(const struct mf_loaded *l, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err)
{
    for (int g = 0; g < MF_GROUP_BUFFER; g++)
        if (!mf_params_count(ps, (enum mf_group)g) || (ps->frozen >> g & 1))
            continue;
        else if (l->frozen >> g & 1)
            return mf_err_set(err, MF_EUSAGE,
                              "%s cannot be resumed without training.freeze_encoder=true, with which it was trained: "
                              "it has no optimiser state of %s",
                              l->path, mf_group_names[g]);
        else if (mf_loaded_int(l, "adam.", mf_group_names[g], &a->step[g], err))
            return mf_err_at(err, "no optimiser state to resume from");
        else if (a->step[g] < 0)
            return mf_err_set(err, MF_EFORMAT, "%s cannot be resumed: adam.%s is %lld steps", l->path,
                              mf_group_names[g], (long long)a->step[g]);
    int rc = load_state(l, ps, "opt/", "/m", -INFINITY, a, a->m, err);
    return rc ? rc : load_state(l, ps, "opt/", "/v", 0, a, a->v, err);
}
