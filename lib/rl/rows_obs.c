#include "rl/rows_obs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void mf_rows_place_obs(struct mf_rows *r, struct mf_arena *a)
{
    const size_t n = r->ranks ? r->n_own : r->n;
    r->obs = mf_arena_take(a, n * (size_t)r->O, sizeof *r->obs);
    r->home = r->ranks ? mf_arena_take(a, r->n, sizeof *r->home) : NULL;
    r->own = r->ranks ? mf_arena_take(a, n, sizeof *r->own) : NULL;
}

/* Pictures of the same size may come with other axes; an array that a filter has flattened tells nothing. */
static int check_axes(const struct mf_rollout *r, const struct mf_array *a, const struct mf_obs *key,
                      struct mf_err *err)
{
    struct mf_obs sent = *key;
    char is[64], wanted[64];
    for (int i = 0; i < MF_OBS_RANK && a->rank > MF_OBS_RANK + 1 && mf_obs_is_picture(key); i++)
        sent.dim[i] = (int)a->dim[a->rank - MF_OBS_RANK + i];
    if (!memcmp(sent.dim, key->dim, sizeof key->dim))
        return 0;
    return mf_err_set(err, MF_EFORMAT, "rollout %lld: obs/%s is %s, the policy needs %s", (long long)r->iter, key->name,
                      mf_obs_shape(&sent, is), mf_obs_shape(key, wanted));
}

/* (T, N, To, dim) of every key -> the flat observation of one decision, normalised. An encoding is kept as it is: the
 * encoder's input was normalised. */
static int copy(const struct mf_frame *f, const struct mf_rollout *r, const struct mf_policy *p, size_t at, float *flat,
                struct mf_err *err)
{
    const struct mf_policy_spec *spec = &p->spec;
    const struct mf_layout *l = &spec->net.obs;
    for (int q = 0, column = 0; q < l->n; column += mf_obs_size(&l->key[q++])) {
        const struct mf_obs *key = &l->key[q];
        char name[MF_NAME_MAX], has[64] = "missing";
        snprintf(name, sizeof name, "obs/%s", key->name);
        const struct mf_array *a = mf_frame_find(f, name);
        size_t dim = (size_t)mf_obs_count(key), steps = (size_t)spec->n_obs_steps;
        const size_t count = a ? a->count / (r->end - r->first) * r->T * r->N : 0;
        const enum mf_dtype dtype = key->u8 ? MF_U8 : MF_F32;
        if (a)
            snprintf(has, sizeof has, "%zu numbers of %s", count, mf_dtype_name(a->dtype));
        if (!a || a->dtype != dtype || count != r->T * r->N * steps * dim)
            return mf_err_set(err, MF_EFORMAT, "rollout %lld: %s is %s, the policy needs %s (%zu, %zu, %zu, %zu)",
                              (long long)r->iter, name, has, mf_dtype_name(dtype), r->T, r->N, steps, dim);
        if (check_axes(r, a, key, err))
            return err->code;
        for (size_t o = 0; o < steps; o++) {
            const size_t bytes = dim * mf_dtype_size(dtype);
            float *to = flat + o * (size_t)l->dim + column;
            mf_obs_pack(key, (const char *)a->data + ((at - r->first) * steps + o) * bytes, to);
            mf_policy_normalize_key(p, key->name, to);
        }
    }
    return 0;
}

int mf_rows_copy_obs(struct mf_rows *r, const struct mf_frame *f, const struct mf_rollout *q, const struct mf_policy *p,
                     size_t row, size_t at, struct mf_err *err)
{
    size_t to = row;
    if (r->ranks) {
        r->home[row] = (uint16_t)mf_share_of(q->T * q->N, at, r->ranks);
        if (r->home[row] != r->rank)
            return 0;
        r->own[to = r->n_own++] = (uint32_t)row;
    }
    return copy(f, q, p, at, r->obs + to * (size_t)r->O, err);
}

const uint32_t *mf_rows_here(const struct mf_rows *r, size_t *n)
{
    *n = r->ranks ? r->n_own : r->n_live;
    return r->ranks ? r->own : r->live;
}

/* ---- of a minibatch ---- */

int mf_batch_obs_open(struct mf_batch_obs *b, const struct mf_rows *r, size_t most, struct mf_err *err)
{
    *b = (struct mf_batch_obs){.bytes = most * (size_t)r->O * sizeof(float)};
    if (!r->ranks || most == 0)
        return 0;
    void *p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for the observations of a minibatch", b->bytes);
    madvise(p, b->bytes, MADV_NOHUGEPAGE); /* of one that is touched in part all would take memory */
    b->obs = p;
    b->by = mf_xcalloc(most, sizeof *b->by);
    b->move = mf_xcalloc(most, sizeof *b->move);
    return 0;
}

void mf_batch_obs_close(struct mf_batch_obs *b)
{
    if (b->obs)
        munmap(b->obs, b->bytes);
    free(b->by);
    free(b->move);
    *b = (struct mf_batch_obs){0};
}

int mf_batch_obs_bring(struct mf_batch_obs *b, struct mf_ranks *ranks, const struct mf_plan *plan,
                       const struct mf_rows *r, const uint32_t *row, size_t n, struct mf_err *err)
{
    const size_t O = (size_t)r->O;
    size_t own = 0;
    mf_plan_ranks(plan, n, b->by);
    for (size_t i = 0; i < n; i++) {
        while (own < r->n_own && r->own[own] < row[i])
            own++;
        b->move[i] = (struct mf_ranks_move){
            .from = r->home[row[i]], .to = b->by[i], .has = r->obs + own * O, .gets = b->obs + i * O};
    }
    return mf_ranks_move(ranks, b->move, n, O * sizeof *b->obs, err);
}
