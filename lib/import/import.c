#include "import/import.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "graph/graph.h"
#include "run/safetensors.h"
#include "flow/checkpoint.h"
#include "flow/fields.h"
#include "import/conv2d.h"
#include "import/import_families.h"
#include "flow/mismatches.h"

/* A file with a network is of the network's family: the encoders come last. */
static const struct mf_family *const families[] = {
    &mf_family_pi05,       &mf_family_vit,    &mf_family_reinflow,       &mf_family_maniflow,   &mf_family_unet,
    &mf_family_plain_conv, &mf_family_nature, &mf_family_resnet_spatial, &mf_family_resnet_mean};

static const char picture[] = "picture."; /* normalisers of pictures */

/* ---- open ---- */

static const struct mf_rename *in_force(const struct mf_import *im, const char *ours)
{
    for (int i = 0; i < im->n_in_force; i++)
        if (mf_starts(ours, im->in_force[i]->ours))
            return im->in_force[i];
    return NULL;
}

/* Is one of the family's anchors, renamed, a tensor of the file? */
static bool leads(const struct mf_import *im, const struct mf_family *f, const struct mf_rename *r)
{
    for (const char *const *anchor = f->anchors; *anchor; anchor++)
        if (mf_starts(*anchor, r->ours) &&
            mf_import_tensor(im, im->layout.weights, r->theirs, *anchor + strlen(r->ours)))
            return true;
    return false;
}

static bool recognise(struct mf_import *im, const struct mf_family *f)
{
    im->n_in_force = 0;
    for (const struct mf_rename *r = f->names; r->ours; r++)
        if (!in_force(im, r->ours) && leads(im, f, r))
            im->in_force[im->n_in_force++] = r;
    im->family = f;
    return in_force(im, f->anchors[0]) != NULL;
}

/* Looks for the family's names below one more prefix. 1: recognised. */
static int look_below(struct mf_import *im, const struct mf_family *f, struct mf_err *err)
{
    for (const struct mf_rename *r = f->names; r->ours; r++)
        for (const char *const *anchor = f->anchors; *anchor && mf_starts(f->anchors[0], r->ours); anchor++) {
            if (!mf_starts(*anchor, r->ours))
                continue;
            int rc = mf_import_outer(im, r->theirs, *anchor + strlen(r->ours), err);
            if (rc)
                return rc > 0 ? recognise(im, f) : rc;
        }
    return 0;
}

static bool recognise_any(struct mf_import *im)
{
    bool known = false;
    for (size_t i = 0; !known && i < sizeof families / sizeof *families; i++)
        known = recognise(im, families[i]);
    return known;
}

static int find_family(struct mf_import *im, struct mf_err *err)
{
    const size_t n = sizeof families / sizeof *families;
    char prefix[200] = "";
    int known = recognise_any(im);
    while (!known && mf_import_common(im, prefix, sizeof prefix))
        known = recognise_any(im);
    if (*prefix)
        mf_import_note(im, prefix);
    for (size_t i = 0; !known && i < n; i++)
        known = look_below(im, families[i], err);
    if (known)
        return known < 0 ? known : 0;
    return mf_err_set(err, MF_EFORMAT,
                      "%.150s has no weights of a policy that is known here among %s%.60s%s; mf-ckpt show lists them",
                      im->file.zip.path, *im->layout.weights ? "those in '" : "its tensors", im->layout.weights,
                      *im->layout.weights ? "'" : "");
}

int mf_import_open(struct mf_import *im, const char *path, struct mf_err *err)
{
    *im = (struct mf_import){0};
    int rc = mf_torch_open(&im->file, path, err);
    if (rc)
        return rc;
    im->layout = mf_torch_layout(&im->file);
    mf_import_names(im);
    rc = im->layout.name ? find_family(im, err)
                         : mf_err_set(err, MF_EFORMAT,
                                      "%s has no weights where a known layout has them; mf-ckpt show lists what "
                                      "is in it",
                                      path);
    if (rc || (rc = mf_import_twins(im, err)))
        mf_import_close(im);
    return rc;
}

void mf_import_close(struct mf_import *im)
{
    for (int i = 0; im->key && i < im->file.n; i++)
        free(im->key[i]);
    free(im->key);
    mf_torch_close(&im->file);
}

const struct mf_torch_tensor *mf_import_find(const struct mf_import *im, const char *dictionary, const char *ours)
{
    const struct mf_rename *r = in_force(im, ours);
    if (mf_starts(ours, picture)) /* of our own export */
        return mf_import_tensor(im, im->layout.weights, ours, "");
    return r ? mf_import_tensor(im, dictionary, r->theirs, ours + strlen(r->ours)) : NULL;
}

int mf_import_dim(const struct mf_import *im, const char *ours, int d)
{
    const struct mf_torch_tensor *t = mf_import_find(im, im->layout.weights, ours);
    return t && d < t->rank && t->dim[d] <= 1 << 20 ? (int)t->dim[d] : 0;
}

/* ---- the spec ---- */

/* Sizes come from shapes, which a file may give at will: a checkpoint could not have them, either. */
static int check_sizes(const struct mf_import *im, const struct mf_policy_spec *s, struct mf_err *err)
{
    struct mf_policy_spec again = *s;
    for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(s, f));) {
        char text[MF_SPEC_TEXT];
        mf_spec_text(s, f, text);
        if (mf_spec_set(&again, f, text, im->file.zip.path, err))
            return err->code;
    }
    return 0;
}

int mf_import_spec(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    struct mf_policy_spec asked, found;
    int rc = mf_policy_spec_make(&asked, w->conf, w->obs ? w->obs : &(struct mf_layout){0}, w->A, err);
    *s = asked;
    if (rc || (rc = im->family->describe(im, s, w, err)))
        return rc;
    if ((rc = check_sizes(im, s, err)))
        return rc;
    found = *s;
    asked.obs = s->obs; /* no key sets these: the family compared them with the environment */
    asked.action_dim = s->action_dim;
    if ((rc = mf_policy_spec_overlay(s, im->file.zip.path, &asked, w->conf, err)))
        return rc;
    if (s->steer)
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.steer adds an actor of the initial noise, which no file of PyTorch gives: leave it out "
            "here, and give it to mf-collect with the imported policy");
    s->n_critic = found.n_critic ? s->n_critic : 0; /* a head that the file lacks is initialised where it is needed */
    s->n_noise = found.learned_noise ? s->n_noise : 0;
    s->learned_noise = found.learned_noise && s->learned_noise;
    return 0;
}

/* ---- save ---- */

/* A parameter is a matrix of rows: PyTorch may split both, as (1, 16, 32) for (16, 32), or write () for (1). */
static bool fits(const struct mf_torch_tensor *t, const struct mf_param *p)
{
    size_t rows = p->rank > 1 ? (size_t)p->rows : 1, product = 1, dim[4];
    bool split = rows == 1;
    if (p->kernel || p->rank == 4) /* the rows of a convolution are not split */
        return t->rank == mf_torch_shape(p, dim) && !memcmp(t->dim, dim, (size_t)t->rank * sizeof *dim);
    for (int i = 0; i < t->rank && !split; i++)
        split = (product *= t->dim[i]) == rows;
    return split && t->count == (size_t)p->rows * (size_t)p->cols;
}

static void misshapen(struct mf_mismatches *m, const struct mf_torch_tensor *t, const struct mf_param *p)
{
    size_t dim[4];
    const int rank = mf_torch_shape(p, dim), first = rank == 3 && !p->kernel; /* PyTorch may write (rows, cols) */
    mf_mismatch_shape(m, t->name, t->rank, t->dim, rank - first, dim + first);
}

static void check_param(const struct mf_import *im, const char *dictionary, const struct mf_param *p, bool *used,
                        struct mf_mismatches *m)
{
    const struct mf_rename *r = in_force(im, p->name);
    const struct mf_torch_tensor *t = mf_import_find(im, dictionary, p->name);
    if (!t && mf_import_folds(im, dictionary, p->name)) {
        if (!mf_import_norm_used(im, dictionary, p, used))
            mf_mismatch(m, "the batch norm of %s lacks a tensor of %d numbers", p->name, p->cols);
        return;
    }
    if (!t && (mf_starts(p->name, picture) || (im->encoder_alone && p->group != MF_GROUP_ENCODER)))
        return;
    if (!t && r)
        mf_mismatch(m, "%s%s%s%s is missing", dictionary, *dictionary ? "." : "", r->theirs, p->name + strlen(r->ours));
    else if (!t)
        mf_mismatch(m, "%s is missing", p->name);
    else if (!fits(t, p))
        misshapen(m, t, p);
    else if (!t->dtype->number)
        mf_mismatch(m, "%s is %s", t->name, t->dtype->name);
    if (t)
        used[t - im->file.tensor] = true;
}

/* A prefix of the family is not required where another one matched. */
static bool replaced(const struct mf_import *im, const char *prefix)
{
    for (int i = 0; i < im->n_in_force; i++)
        if (!strcmp(im->in_force[i]->theirs, prefix))
            return false;
    return true;
}

/* A '*' stands for a part of the name. */
static bool begins(const char *key, const char *prefix)
{
    const char *star = strchr(prefix, '*');
    return star ? !strncmp(key, prefix, (size_t)(star - prefix)) && strstr(key + (star - prefix), star + 1)
                : mf_starts(key, prefix);
}

/* Why the tensor of that name is not imported; NULL: it should be. */
static const struct mf_left *left_of(const struct mf_import *im, const struct mf_policy_spec *s, const char *key)
{
    static const char unwanted[] = "the policy is without the file's noise network, as the keys have it";
    static const struct mf_left others[] = {{"latent_actor.", "DSRL's actor is a network of its own"},
                                            {"explore_noise_net.", unwanted},
                                            {"noise_head.", unwanted}};
    for (const struct mf_left *left = im->family->left; left->prefix; left++)
        if (begins(key, left->prefix) && replaced(im, left->prefix))
            return left;
    for (int i = 0; i < (s->learned_noise ? 1 : 3); i++) {
        const struct mf_rename *r = in_force(im, others[i].prefix);
        char theirs[160];
        snprintf(theirs, sizeof theirs, "%s%s", r ? r->theirs : "", others[i].prefix + (r ? strlen(r->ours) : 0));
        if (begins(key, theirs))
            return &others[i];
    }
    return NULL;
}

static void check_left(struct mf_import *im, const struct mf_policy_spec *s, const bool *used, struct mf_mismatches *m)
{
    for (int i = 0; i < im->file.n; i++) {
        const struct mf_torch_tensor *t = &im->file.tensor[i];
        if (used[i] || !mf_import_within(im, t, im->layout.weights) || mf_starts(im->key[i], "normalizer.") ||
            t->count == 0)
            continue;
        const struct mf_left *left = left_of(im, s, im->key[i]);
        if (!left)
            mf_mismatch(m, "%s is left over", t->name);
        else if (im->n_left++ == 0)
            im->left = left;
    }
}

struct weights_from { /* of a checkpoint's numbers */
    struct mf_import *im;
    const struct mf_policy *p;
};

/* Numbers of a parameter that the file does not hold. */
static int make(struct mf_import *im, const struct mf_params *ps, const char *name, size_t first, size_t n, float *to,
                struct mf_err *err)
{
    const struct mf_param *p = &ps->p[mf_param_find(ps, name)];
    float pixels[3];
    int rc = mf_starts(name, picture) ? mf_import_pixels(im, name + strlen(picture), p, pixels, err) : 0;
    for (size_t i = 0; i < n && rc >= 0; i++)
        to[i] = rc > 0 ? pixels[first + i] : mf_starts(name, picture) ? p->a : ps->value[p->at + first + i];
    return rc < 0 ? rc : 0;
}

/* Convolutions are written in another order, and become floats. */
static bool stays_bf16(const void *self, const struct mf_param *p)
{
    const struct mf_import *im = ((const struct weights_from *)self)->im;
    const struct mf_torch_tensor *t = mf_import_find(im, im->layout.weights, p->name);
    return im->keep_bf16 && t && p->rows > 1 && p->rank == 2 && !strcmp(t->dtype->name, "bfloat16");
}

static int send_floats(void *self, const struct mf_array *a, size_t first, size_t n, void *to, struct mf_err *err)
{
    const struct weights_from *from = self;
    struct mf_import *im = from->im;
    const bool average = mf_starts(a->name, "ema/");
    const char *name = a->name + (average ? 4 : 0), *dictionary = average ? im->layout.average : im->layout.weights;
    const struct mf_torch_tensor *t = mf_import_find(im, dictionary, name);
    const bool folds = mf_import_folds(im, dictionary, name);
    if (!t && !folds)
        return make(im, &from->p->params, name, first, n, to, err);
    const struct mf_torch_tensor ours = t && a->rank == 4 ? mf_conv2d_import(t) : t ? *t : (struct mf_torch_tensor){0};
    int rc = t ? mf_torch_read(&im->file, &ours, first, n, to, err) : 0;
    const struct mf_params *ps = &from->p->params;
    return rc || !folds ? rc : mf_import_fold(im, dictionary, &ps->p[mf_param_find(ps, name)], first, n, to, err);
}

/* A bfloat16 is the upper half of its float. */
static int send(void *self, const struct mf_array *a, size_t first, size_t n, void *to, struct mf_err *err)
{
    float some[1024];
    int rc = 0;
    if (a->dtype == MF_F32)
        return send_floats(self, a, first, n, to, err);
    for (size_t at = 0, m; rc == 0 && at < n; at += m) {
        m = n - at < 1024 ? n - at : 1024;
        rc = send_floats(self, a, first + at, m, some, err);
        for (size_t i = 0; rc == 0 && i < m; i++)
            memcpy((char *)to + 2 * (at + i), (const char *)&some[i] + 2, 2);
    }
    return rc;
}

/* Fresh weights, but those of the file. */
static int grow(struct weights_from *from, struct mf_policy *p, struct mf_err *err)
{
    int rc = mf_params_alloc(&p->params, err);
    if (rc)
        return rc;
    mf_params_fresh(&p->params, 0);
    for (int i = 0; i < p->params.n && !rc; i++) {
        const struct mf_param *q = &p->params.p[i];
        struct mf_array a = {.dtype = MF_F32, .rank = q->rank};
        snprintf(a.name, sizeof a.name, "%s", q->name);
        if (q->group == MF_GROUP_ENCODER || q->group == MF_GROUP_BUFFER)
            rc = send(from, &a, 0, (size_t)q->rows * (size_t)q->cols, p->params.value + q->at, err);
    }
    return rc;
}

/* Sigma's bounds are in the file as log-variances. */
static int find_noise(struct mf_import *im, struct mf_policy *p, struct mf_err *err)
{
    const struct mf_torch_tensor *low = NULL, *high = NULL;
    for (int i = 0; i < p->params.n; i++) {
        const char *name = p->params.p[i].name;
        low = mf_ends(name, ".logvar_min") ? mf_import_find(im, im->layout.weights, name) : low;
        high = mf_ends(name, ".logvar_max") ? mf_import_find(im, im->layout.weights, name) : high;
    }
    float v[2];
    if (!p->spec.learned_noise)
        return 0;
    int rc = mf_torch_read(&im->file, low, 0, 1, &v[0], err) || mf_torch_read(&im->file, high, 0, 1, &v[1], err)
                 ? err->code
                 : 0;
    if (!rc) {
        p->noise_low = exp((double)v[0] / 2);
        p->noise_high = exp((double)v[1] / 2);
    }
    return rc;
}

int mf_import_save(struct mf_import *im, struct mf_policy *p, const char *path, struct mf_err *err)
{
    struct mf_mismatches m = {.n = 0};
    bool *used = mf_xcalloc((size_t)im->file.n + 1, sizeof *used);
    for (int i = 0; i < p->params.n; i++) {
        check_param(im, im->layout.weights, &p->params.p[i], used, &m);
        if (im->layout.average && mf_is_averaged(p->params.p[i].group))
            check_param(im, im->layout.average, &p->params.p[i], used, &m);
    }
    check_left(im, &p->spec, used, &m);
    free(used);
    int rc = mf_mismatches_end(im->file.zip.path, &m, err);
    if (rc || (rc = find_noise(im, p, err)))
        return rc;
    struct weights_from from = {im, p};
    if (im->encoder_alone && (rc = grow(&from, p, err)))
        return rc;
    struct mf_origin origin = {send, &from};
    struct mf_checkpoint c = {.policy = p,
                              .origin = &origin,
                              .origin_ema = im->layout.average != NULL,
                              .bf16 = stays_bf16,
                              .kind = p->spec.n_critic ? "ppo" : "clone"};
    return mf_checkpoint_save(path, &c, err);
}
