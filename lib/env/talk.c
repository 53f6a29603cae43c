#include "env/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mf_frame *mf_talk_new(const char *say, int64_t seq)
{
    struct mf_frame *f = mf_frame_new(MF_OTHER);
    mf_frame_set_str(f, "mf", "env");
    mf_frame_set_str(f, "say", say);
    mf_frame_set_int(f, "seq", seq);
    return f;
}

int mf_talk_send(struct mf_rpc *c, struct mf_frame *f, double timeout_s, struct mf_err *err)
{
    void *data;
    size_t len;
    int rc = mf_frame_encode(f, &data, &len, err);
    mf_frame_free(f);
    if (rc)
        return rc;
    rc = mf_rpc_put(c, data, len, timeout_s, err);
    free(data);
    return rc;
}

int mf_talk_recv(struct mf_rpc *c, double timeout_s, struct mf_frame **f, const char **say, int64_t *seq,
                 struct mf_err *err)
{
    const void *data;
    size_t len;
    int rc = mf_rpc_get(c, timeout_s, &data, &len, err);
    if (rc)
        return rc;
    if ((rc = mf_frame_decode(f, data, len, err)))
        return mf_err_at(err, "%s", mf_rpc_name(c));
    if (mf_frame_get_str(*f, "say", say, err) || mf_frame_get_int(*f, "seq", seq, err)) {
        mf_frame_free(*f);
        return mf_err_at(err, "%s", mf_rpc_name(c));
    }
    return 0;
}

/* ---- arrays ---- */

int mf_talk_put(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim,
                const void *from, struct mf_err *err)
{
    void *to;
    int rc = mf_frame_add(f, name, dtype, rank, dim, &to, err);
    if (rc == 0)
        memcpy(to, from, mf_frame_find(f, name)->bytes);
    return rc;
}

static void shape_text(char *text, size_t size, enum mf_dtype dtype, int rank, const size_t *dim)
{
    int at = snprintf(text, size, "%s (", mf_dtype_name(dtype));
    for (int i = 0; i < rank && at < (int)size; i++)
        at += snprintf(text + at, size - (size_t)at, "%s%zu", i ? ", " : "", dim[i]);
    if (at < (int)size)
        snprintf(text + at, size - (size_t)at, ")");
}

int mf_talk_get(const struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim,
                const void **data, struct mf_err *err)
{
    const struct mf_array *a = mf_frame_find(f, name);
    char have[120], want[120];
    if (!a)
        return mf_err_set(err, MF_EFORMAT, "an answer lacks the array '%s'", name);
    if (a->dtype == dtype && a->rank == rank && !memcmp(a->dim, dim, (size_t)rank * sizeof *dim)) {
        *data = a->data;
        return 0;
    }
    shape_text(have, sizeof have, a->dtype, a->rank, a->dim);
    shape_text(want, sizeof want, dtype, rank, dim);
    return mf_err_set(err, MF_EFORMAT, "'%s' is %s instead of %s", name, have, want);
}

/* ---- observations ---- */

/* Its name, and its dims behind n; n < 0: its dims alone. */
static int describe(const char *prefix, const struct mf_obs *o, int n, char name[MF_NAME_MAX], size_t dim[MF_RANK_MAX])
{
    int rank = 0;
    snprintf(name, MF_NAME_MAX, "%s/%s", prefix, o->name);
    if (n >= 0)
        dim[rank++] = (size_t)n;
    for (int i = 0; i < mf_obs_rank(o); i++)
        dim[rank++] = (size_t)o->dim[i];
    return rank;
}

/* Tokens are made here of the tasks, and are not sent. */
static bool is_sent(const struct mf_obs *o)
{
    return strcmp(o->name, MF_OBS_TOKENS) != 0;
}

int mf_talk_put_obs(struct mf_frame *f, const char *prefix, const struct mf_layout *l, int n, const float *rows,
                    struct mf_err *err)
{
    for (int k = 0; k < l->n; k++) {
        const struct mf_obs *o = &l->key[k];
        char name[MF_NAME_MAX];
        size_t dim[MF_RANK_MAX], bytes = (size_t)mf_obs_count(o) * (o->u8 ? 1 : sizeof *rows);
        void *to;
        if (!is_sent(o)) {
            rows = rows ? rows + mf_obs_size(o) : NULL;
            continue;
        }
        int rank = describe(prefix, o, n, name, dim);
        int rc = mf_frame_add(f, name, o->u8 ? MF_U8 : MF_F32, rank, dim, &to, err);
        if (rc)
            return rc;
        for (size_t i = 0; rows && i < (n < 0 ? 1 : (size_t)n); i++)
            mf_obs_unpack(o, rows + i * (size_t)l->dim, (char *)to + i * bytes);
        rows = rows ? rows + mf_obs_size(o) : NULL;
    }
    return 0;
}

int mf_talk_get_obs(const struct mf_frame *f, const char *prefix, const struct mf_layout *l, struct mf_resizer *r,
                    int n, float *rows, struct mf_err *err)
{
    for (int k = 0; k < l->n; k++) {
        const struct mf_obs *o = &r->from.key[k];
        char name[MF_NAME_MAX];
        size_t dim[MF_RANK_MAX];
        const void *from;
        if (!is_sent(o)) {
            rows += mf_obs_size(o);
            continue;
        }
        int rank = describe(prefix, o, n, name, dim);
        const struct mf_array *a = mf_frame_find(f, name);
        struct mf_obs sent = *o;
        sent.u8 |= a && a->dtype == MF_U8 && mf_obs_rank(o) == 1; /* a flag, as in demonstrations */
        int rc = mf_talk_get(f, name, sent.u8 ? MF_U8 : MF_F32, rank, dim, &from, err);
        if (rc)
            return rc;
        const size_t bytes = (size_t)mf_obs_count(o) * (sent.u8 ? 1 : sizeof *rows);
        for (size_t i = 0; i < (size_t)n; i++)
            mf_resizer_pack(r, k, &sent, (const char *)from + i * bytes, rows + i * (size_t)l->dim);
        rows += mf_obs_size(&l->key[k]);
    }
    return 0;
}

int mf_talk_get_pictures(const struct mf_frame *f, int n, int C, int *width, int *height, const uint8_t **rgb,
                         struct mf_err *err)
{
    const struct mf_array *a = mf_frame_find(f, "image");
    size_t dim[5] = {(size_t)n, (size_t)C, 1, 1, 3};
    for (int i = 2; i < 4; i++) {
        dim[i] = a && a->rank == 5 ? a->dim[i] : 1;
        if (dim[i] < 1 || dim[i] > MF_PICTURE_MAX)
            return mf_err_set(err, MF_EFORMAT, "an image has a side of %zu pixels, not 1 to %d", dim[i],
                              MF_PICTURE_MAX);
    }
    *height = (int)dim[2];
    *width = (int)dim[3];
    return mf_talk_get(f, "image", MF_U8, 5, dim, (const void **)rgb, err);
}

bool mf_talk_has_obs(const struct mf_frame *f, const char *prefix, const struct mf_layout *l)
{
    char name[MF_NAME_MAX];
    size_t dim[MF_RANK_MAX];
    int k = 0;
    while (k < l->n - 1 && !is_sent(&l->key[k]))
        k++;
    describe(prefix, &l->key[k], 0, name, dim);
    return mf_frame_find(f, name);
}

int mf_talk_layout(const struct mf_frame *f, const char *prefix, struct mf_layout *l, struct mf_err *err)
{
    size_t skip = strlen(prefix);
    *l = (struct mf_layout){0};
    for (int i = 0; i < mf_frame_arrays(f); i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        struct mf_obs o = {.u8 = a->dtype == MF_U8 && a->rank > 1};
        size_t size = 1;
        if (strncmp(a->name, prefix, skip) || a->name[skip] != '/')
            continue;
        if ((a->dtype != MF_U8 && a->dtype != MF_F32) || a->rank < 1 || a->rank > MF_OBS_RANK)
            return mf_err_set(err, MF_EFORMAT,
                              "the observation '%s' is %s of %d dimensions; possible are float32 and uint8 of 1 to %d",
                              a->name, mf_dtype_name(a->dtype), a->rank, MF_OBS_RANK);
        for (int d = 0; d < a->rank; d++) {
            if (a->dim[d] < 1 || a->dim[d] > MF_OBS_MAX / size)
                return mf_err_set(err, MF_EFORMAT, "the observation '%s' has no numbers, or more than %d", a->name,
                                  MF_OBS_MAX);
            o.dim[d] = (int)a->dim[d];
            size *= a->dim[d];
        }
        const char *name = a->name + skip + 1, *fault = mf_obs_name_fault(name);
        if (fault)
            return mf_err_set(err, MF_EFORMAT, "the name of its observation '%s' %s", name, fault);
        strcpy(o.name, name);
        for (int k = 0; k < l->n; k++)
            if (mf_obs_names_clash(l->key[k].name, name))
                return mf_err_set(err, MF_EFORMAT,
                                  "its observations '%s' and '%s' cannot be stored in one HDF5 file: rename one",
                                  l->key[k].name, name);
        if (!mf_layout_add(l, &o))
            return mf_err_set(err, MF_EFORMAT, "more than %d observations; select some with policy.obs_keys",
                              MF_OBS_KEYS);
    }
    return l->n ? 0 : mf_err_set(err, MF_EFORMAT, "no observations: each needs an array %s/KEY", prefix);
}
