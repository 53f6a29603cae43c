#include "flow/frames.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "flow/checkpoint_priv.h"

enum { PART_MAX = 64 << 20 };                      /* bytes of tensors */
static const int64_t COUNT_MAX = (int64_t)1 << 53; /* largest valid count: later ones stay exact */

/* Every parameter, unless it leaves out the frozen ones, and the normaliser. */
static int tensors_of(const struct mf_policy *p, bool leaves, struct mf_array **list)
{
    const struct mf_params *ps = &p->params;
    struct mf_norm_part norm[4];
    struct mf_array *a = *list = mf_xcalloc((size_t)ps->n + 4, sizeof *a);
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *q = &ps->p[i];
        if (leaves && (ps->frozen >> q->group & 1))
            continue;
        memcpy(a->name, q->name, sizeof a->name);
        a->rank = mf_param_shape(q, a->dim);
        a->dtype = q->bf16 ? MF_BFLOAT : MF_F32;
        a->data = q->bf16 ? (void *)(uintptr_t)q->bf16 : ps->value ? ps->value + q->at : NULL;
        a++;
    }
    mf_norm_parts(p, norm);
    for (int i = 0; i < 4; i++, a++) {
        snprintf(a->name, sizeof a->name, "%s", norm[i].name);
        a->rank = 1;
        a->dim[0] = (size_t)norm[i].n;
        a->data = norm[i].value;
    }
    int n = (int)(a - *list);
    for (int i = 0; i < n; i++) {
        a = &(*list)[i];
        a->bytes = sizeof(float);
        for (int k = 0; k < a->rank; k++)
            a->bytes *= a->dim[k];
    }
    return n;
}

/* The end of the part that begins at `from`: one tensor, or several of at most PART_MAX bytes. */
static int part_end(const struct mf_array *list, int n, int from)
{
    size_t bytes = list[from].bytes;
    int to = from + 1;
    while (to < n && bytes + list[to].bytes <= PART_MAX)
        bytes += list[to++].bytes;
    return to;
}

static int count_parts(const struct mf_array *list, int n)
{
    int parts = 0;
    for (int from = 0; from < n; from = part_end(list, n, from))
        parts++;
    return parts;
}

static int make_part(const struct mf_policy *p, bool leaves, const struct mf_array *list, int from, int to, int k,
                     int of, struct mf_frame **out, struct mf_err *err)
{
    struct mf_frame *f = *out = mf_frame_new(MF_POLICY);
    mf_frame_set_int(f, "version", p->version);
    mf_frame_set_int(f, "iter", p->iter);
    mf_frame_set_int(f, "global_step", p->global_step);
    mf_frame_set_int(f, "saved", p->saved);
    mf_frame_set_num(f, "noise.low", p->noise_low);
    mf_frame_set_num(f, "noise.high", p->noise_high);
    mf_frame_set_ints(f, "part", (int64_t[]){k, of}, 2);
    if (leaves)
        mf_frame_set_str(f, "frozen", p->frozen);
    for (int i = from; i < to; i++) {
        void *data;
        int rc = mf_frame_add(f, list[i].name, MF_F32, list[i].rank, list[i].dim, &data, err);
        if (rc)
            return rc;
        mf_array_floats(&list[i], 0, list[i].bytes / sizeof(float), data);
    }
    return 0;
}

int mf_policy_encode(const struct mf_policy *p, bool leaves, void ***parts, size_t **sizes, int *n, struct mf_err *err)
{
    struct mf_array *list;
    int total = tensors_of(p, leaves, &list), of = count_parts(list, total), from = 0, rc = 0;
    void **data = mf_xcalloc((size_t)of, sizeof *data);
    size_t *size = mf_xcalloc((size_t)of, sizeof *size);
    for (int k = 0; k < of && !rc; k++) {
        struct mf_frame *f;
        int to = part_end(list, total, from);
        if (!(rc = make_part(p, leaves, list, from, to, k, of, &f, err)))
            rc = mf_frame_encode(f, &data[k], &size[k], err);
        mf_frame_free(f);
        from = to;
    }
    free(list);
    if (rc) {
        mf_policy_drop(data, size, of);
        return rc;
    }
    *parts = data;
    *sizes = size;
    *n = of;
    return 0;
}

size_t mf_policy_sent(const struct mf_policy *p, bool leaves)
{
    struct mf_array *list;
    size_t bytes = 0;
    for (int i = 0, n = tensors_of(p, leaves, &list); i < n; i++)
        bytes += list[i].bytes;
    free(list);
    return bytes;
}

void mf_policy_drop(void **parts, size_t *sizes, int n)
{
    for (int k = 0; k < n; k++)
        free(parts[k]);
    free(parts);
    free(sizes);
}

static int check_tensor(const struct mf_array *want, const struct mf_frame *part, struct mf_err *err)
{
    const struct mf_array *got = mf_frame_find(part, want->name);
    if (!got)
        return mf_err_set(err, MF_EFORMAT, "a frame of the policy lacks %s: was it made for another network?",
                          want->name);
    if (got->dtype != MF_F32 || got->rank != want->rank ||
        memcmp(got->dim, want->dim, (size_t)want->rank * sizeof *want->dim) != 0)
        return mf_err_set(err, MF_EFORMAT, "a frame of the policy has %s in another shape than (%zu, %zu)", want->name,
                          want->dim[0], want->dim[1]);
    return 0;
}

/* What stays in its file is compared. */
static int take_tensor(const struct mf_policy *p, const struct mf_array *to, const struct mf_array *got,
                       struct mf_err *err)
{
    float some[1024];
    const size_t all = to->bytes / sizeof *some;
    if (to->dtype == MF_F32) {
        memcpy(to->data, got->data, to->bytes);
        return 0;
    }
    for (size_t at = 0, n; at < all; at += n) {
        n = all - at < 1024 ? all - at : 1024;
        mf_array_floats(to, at, n, some);
        if (memcmp(some, (const float *)got->data + at, n * sizeof *some) != 0)
            return mf_err_set(err, MF_EUSAGE,
                              "the learner has another %s than %s, which is used frozen: give both programs the same "
                              "policy.checkpoint and training.freeze_encoder",
                              to->name, mf_loaded_path(p->base));
    }
    return 0;
}

/* Does this part leave out the frozen parameters? MF_EUSAGE: the policy has none of that digest. */
static int read_leaves(const struct mf_policy *p, const struct mf_frame *part, bool *leaves, struct mf_err *err)
{
    const char *frozen;
    *leaves = mf_frame_has(part, "frozen");
    if (!*leaves)
        return 0;
    if (mf_frame_get_str(part, "frozen", &frozen, err))
        return err->code;
    if (*p->frozen && !strcmp(frozen, p->frozen))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "the learner leaves out the frozen parameters of digest %.16s, as its first collector has them, "
                      "and %s%s: give all collectors the same policy.checkpoint and training.freeze_encoder",
                      frozen, *p->frozen ? "those here are " : "there are none here", p->frozen);
}

int mf_policy_from_frame(struct mf_policy *p, const struct mf_frame *part, struct mf_err *err)
{
    struct mf_array *list;
    int64_t k, of, version, iter, step, saved;
    double low, high;
    if (mf_frame_get_int(part, "part.0", &k, err) || mf_frame_get_int(part, "part.1", &of, err) ||
        mf_frame_get_int(part, "version", &version, err) || mf_frame_get_int(part, "iter", &iter, err) ||
        mf_frame_get_int(part, "global_step", &step, err) || mf_frame_get_num(part, "noise.low", &low, err) ||
        mf_frame_get_num(part, "noise.high", &high, err))
        return err->code;
    saved = version; /* a learner that saves each version need not send it */
    if (mf_frame_has(part, "saved") && mf_frame_get_int(part, "saved", &saved, err))
        return err->code;
    const int64_t count[] = {version, iter, step, saved};
    for (int i = 0; i < 4; i++)
        if (count[i] < 0 || count[i] > COUNT_MAX)
            return mf_err_set(err, MF_EFORMAT, "a frame of the policy counts %jd versions, iterations or steps",
                              (intmax_t)count[i]);
    if (!(low >= 0 && high >= 0 && isfinite(low) && isfinite(high)))
        return mf_err_set(err, MF_EFORMAT, "a frame of the policy has noise from %g to %g", low, high);
    bool leaves;
    int rc = read_leaves(p, part, &leaves, err);
    if (rc)
        return rc;
    int total = tensors_of(p, leaves, &list), mine = count_parts(list, total), from = 0;
    if (of != mine || k < 0 || k >= of)
        rc = mf_err_set(err, MF_EFORMAT, "part %jd of %jd is none of the %d parts of this policy", (intmax_t)k,
                        (intmax_t)of, mine);
    for (int i = 0; i < k && !rc; i++)
        from = part_end(list, total, from);
    int to = rc ? from : part_end(list, total, from);
    if (!rc && mf_frame_arrays(part) != to - from)
        rc = mf_err_set(err, MF_EFORMAT, "a frame of the policy has %d tensors where this policy has %d",
                        mf_frame_arrays(part), to - from);
    for (int i = from; i < to && !rc; i++)
        rc = check_tensor(&list[i], part, err);
    for (int i = from; i < to && !rc; i++)
        rc = take_tensor(p, &list[i], mf_frame_find(part, list[i].name), err);
    free(list);
    if (rc)
        return rc;
    p->version = version;
    p->iter = iter;
    p->global_step = step;
    p->saved = saved;
    p->noise_low = low;
    p->noise_high = high;
    p->has_normalizer = true;
    mf_params_touch(&p->params);
    return 0;
}

int mf_policy_decode(struct mf_policy *p, const void *const *parts, const size_t *sizes, int n, struct mf_err *err)
{
    if (n < 1)
        return mf_err_set(err, MF_EFORMAT, "the received policy has no parts");
    for (int k = 0; k < n; k++) {
        struct mf_frame *f;
        int64_t of;
        int rc = mf_frame_decode(&f, parts[k], sizes[k], err);
        if (rc)
            return rc;
        rc = mf_policy_from_frame(p, f, err);
        if (rc == 0 && (rc = mf_frame_get_int(f, "part.1", &of, err)) == 0 && of != n)
            rc = mf_err_set(err, MF_EFORMAT, "the received policy has %d parts of %jd", n, (intmax_t)of);
        mf_frame_free(f);
        if (rc)
            return rc;
    }
    return 0;
}

/* FNV-1a over 8 bytes at a time: it identifies weights, and is no protection against forgery. */
static uint64_t mixed(uint64_t h, const void *data, size_t n)
{
    const char *p = data;
    for (; n;) {
        uint64_t word = 0;
        size_t m = n < 8 ? n : 8;
        memcpy(&word, p, m);
        h = (h ^ word) * 0x100000001b3;
        h ^= h >> 32; /* mixes the high bits into the low ones */
        p += m;
        n -= m;
    }
    return h;
}

/* As floats, whatever it is. */
static uint64_t mixed_tensor(uint64_t h, const struct mf_array *a)
{
    float some[1024];
    const size_t all = a->bytes / sizeof *some;
    if (a->dtype == MF_F32)
        return mixed(h, a->data, a->bytes);
    for (size_t at = 0, n; at < all; at += n) {
        n = all - at < 1024 ? all - at : 1024;
        mf_array_floats(a, at, n, some);
        h = mixed(h, some, n * sizeof *some);
    }
    return h;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mf_array *)a)->name, ((const struct mf_array *)b)->name);
}

static uint64_t digest_of(struct mf_array *list, int n)
{
    uint64_t h = 0xcbf29ce484222325;
    qsort(list, (size_t)n, sizeof *list, by_name);
    for (int i = 0; i < n; i++) {
        h = mixed(h, list[i].name, strlen(list[i].name));
        h = mixed_tensor(h, &list[i]);
    }
    return h;
}

void mf_policy_digest(const struct mf_policy *p, char hex[17])
{
    struct mf_array *list;
    int n = tensors_of(p, false, &list);
    uint64_t h = mixed(digest_of(list, n), (double[]){p->noise_low, p->noise_high}, 2 * sizeof(double));
    free(list);
    snprintf(hex, 17, "%016jx", (uintmax_t)h);
}

void mf_policy_encoder_digest(const struct mf_policy *p, char hex[17])
{
    struct mf_array *list;
    int n = tensors_of(p, false, &list), kept = 0;
    for (int i = 0; i < n; i++)
        if (i >= p->params.n || p->params.p[i].group == MF_GROUP_ENCODER) /* after the parameters: the normaliser */
            list[kept++] = list[i];
    snprintf(hex, 17, "%016jx", (uintmax_t)digest_of(list, kept));
    free(list);
}
