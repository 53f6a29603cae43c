#include "flow/dataset.h"

#include <stdlib.h>

#include "base/rng.h"

static int64_t beyond(int64_t reach, int64_t pad)
{
    return pad < 0 || pad > reach ? 0 : reach - pad;
}

/* The number of samples of demonstration i, if each needs `more` steps beside its own. */
static size_t samples(const struct mf_demos *d, size_t i, int64_t more)
{
    const int64_t n = (int64_t)d->demo[i].n - more;
    return n > 0 ? (size_t)n : 0;
}

static void place(struct mf_dataset *w, size_t batch, struct mf_arena *a)
{
    w->first = mf_arena_take(a, w->d->n_demos + 1, sizeof *w->first);
    w->order = mf_arena_take(a, w->n, sizeof *w->order);
    w->batch = mf_arena_take(a, batch, sizeof *w->batch);
    w->sort = mf_arena_take(a, batch, sizeof *w->sort);
    if (!w->p)
        return;
    const size_t shifts = mf_shift_room(&w->p->spec.obs),
                 augments = w->augmentation ? mf_augment_room(&w->p->spec.obs) : 0;
    w->scratch = mf_arena_take(a, shifts > augments ? shifts : augments, sizeof *w->scratch);
}

/* The columns behind the actions are the policy's observations. */
static int open_pictures(struct mf_dataset *w, struct mf_err *err)
{
    struct mf_layout from = {0};
    for (int k = 1; k < w->d->n_columns; k++)
        mf_layout_add(&from, &w->d->column[k].is);
    return mf_resizer_init(&w->pictures, &from, &w->p->spec.obs, w->p->spec.turn_images, err);
}

static int check_augmented(const struct mf_layout *l, struct mf_err *err)
{
    int color = 0;
    for (int i = 0; i < l->n; i++) {
        const bool is = mf_obs_is_resizable(&l->key[i]);
        char shape[64];
        if (mf_obs_is_picture(&l->key[i]) && !is)
            return mf_err_set(err, MF_EUSAGE,
                              "clone.augment=openpi turns and zooms color pictures, which %s, %s, would no longer "
                              "match: leave one of the two out",
                              l->key[i].name, mf_obs_shape(&l->key[i], shape));
        color += is;
    }
    return color ? 0
                 : mf_err_set(err, MF_EUSAGE,
                              "clone.augment=openpi is for color pictures, and the policy reads none: name them in "
                              "policy.obs_keys");
}

int mf_dataset_open(struct mf_dataset *w, const struct mf_policy *p, struct mf_demos *d, int64_t before, int64_t after,
                    int shift, enum mf_augmentation augmentation, size_t batch, struct mf_err *err)
{
    const struct mf_policy_spec *s = &p->spec;
    int64_t back = s->n_obs_steps - 1 > s->action_offset ? s->n_obs_steps - 1 : s->action_offset;
    int64_t begin = beyond(back, before), rest = beyond(s->horizon - 1 - s->action_offset, after);
    *w = (struct mf_dataset){
        .p = p, .d = d, .begin = begin, .epoch = -1, .shift = {shift, s->net.crop}, .augmentation = augmentation};
    if (augmentation && check_augmented(&s->obs, err))
        return err->code;
    for (size_t i = 0; i < d->n_demos; i++)
        w->n += samples(d, i, begin + rest);
    if (s->state_in_prompt && !d->words)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.state_in_prompt=true: the prompts of demonstrations are made of their words, and "
                          "policy.tokenizer is not given");
    if (w->n == 0)
        return mf_err_set(err, MF_EUSAGE,
                          "no demonstration has the %lld steps that a sample needs with clone.pad_before=%lld and "
                          "clone.pad_after=%lld",
                          (long long)(begin + rest + 1), (long long)before, (long long)after);
    place(w, batch, &w->arena);
    int rc = mf_arena_alloc(&w->arena, "the indices of samples", err);
    if (rc || (rc = open_pictures(w, err)))
        return rc;
    place(w, batch, &w->arena);
    for (size_t i = 0; i < d->n_demos; i++)
        w->first[i + 1] = w->first[i] + samples(d, i, begin + rest);
    return 0;
}

void mf_dataset_close(struct mf_dataset *w)
{
    mf_resizer_release(&w->pictures);
    mf_arena_release(&w->arena);
    *w = (struct mf_dataset){0};
}

size_t mf_dataset_memory(const struct mf_demos *d, size_t batch)
{
    struct mf_dataset w = {.n = d->total, .d = (struct mf_demos *)(uintptr_t)d};
    place(&w, batch, &w.arena);
    return w.arena.used;
}

/* The demonstration of a sample. */
static size_t demo_of(const struct mf_dataset *w, size_t sample)
{
    size_t low = 0, high = w->d->n_demos;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(w->first[middle] <= sample ? &low : &high) = middle;
    }
    return low;
}

/* Copies `steps` steps of a column into flat observations, `stride` floats apart, from step t of a demonstration on.
 * Steps outside the demonstration repeat its first or last one. */
static int take(struct mf_dataset *w, int column, size_t demo, int64_t t, int steps, float *to, size_t stride,
                struct mf_err *err)
{
    struct mf_demos *d = w->d;
    const struct mf_demo_column *k = &d->column[column];
    const char *rows = NULL;
    size_t at = 0, n = 0; /* `rows` holds [at, at + n) */
    for (int i = 0; i < steps; i++, to += stride) {
        int64_t last = (int64_t)d->demo[demo].n - 1, now = t + i < 0 ? 0 : t + i > last ? last : t + i;
        if (!rows || (size_t)now >= at + n) {
            int rc = mf_demos_rows(d, column, demo, at = (size_t)now, (const void **)&rows, &n, err);
            if (rc)
                return rc;
        }
        const void *row = rows + ((size_t)now - at) * k->bytes;
        if (column == MF_DEMO_ACTIONS)
            mf_obs_pack(&k->is, row, to);
        else
            mf_resizer_pack(&w->pictures, column - 1, &k->is, row, to);
    }
    return 0;
}

static void shuffle(struct mf_dataset *w, uint64_t seed, int64_t epoch)
{
    struct mf_rng rng = mf_rng_at(seed, MF_RNG_SHUFFLE, 0, (uint32_t)epoch, (uint32_t)(epoch >> 32));
    for (uint32_t i = 0; i < (uint32_t)w->n; i++) {
        uint32_t j = mf_rng_below(&rng, i + 1);
        w->order[i] = w->order[j];
        w->order[j] = i;
    }
    w->epoch = epoch;
}

const uint32_t *mf_dataset_draw(struct mf_dataset *w, uint64_t seed, int64_t step, size_t n)
{
    const int64_t all = (int64_t)w->n, first = step * (int64_t)n;
    w->seed = seed;
    w->step = step;
    for (int64_t i = 0; i < (int64_t)n; i++) {
        if ((first + i) / all != w->epoch)
            shuffle(w, seed, (first + i) / all);
        w->batch[i] = w->order[(first + i) % all];
    }
    return w->batch;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Column by column, and each in the file's order, so that a page of the file is read once for all of its samples.
 * ahead: of observations, steps after each sample's; NULL: 0. actions NULL: observations alone. */
static int gather(struct mf_dataset *w, size_t n, const uint32_t *index, const int32_t *ahead, float *obs,
                  float *actions, struct mf_err *err)
{
    const struct mf_policy_spec *s = &w->p->spec;
    struct mf_demos *d = w->d;
    size_t O = (size_t)s->net.O, D = (size_t)s->net.D, at = 0;
    for (size_t i = 0; i < n; i++)
        w->sort[i] = (uint64_t)index[i] << 32 | i;
    qsort(w->sort, n, sizeof *w->sort, ascending);
    for (int k = actions ? 0 : MF_DEMO_ACTIONS + 1; k < d->n_columns; k++) {
        for (size_t i = 0; i < n; i++) {
            size_t sample = w->sort[i] >> 32, place = w->sort[i] & UINT32_MAX, demo = demo_of(w, sample);
            int64_t t = w->begin + (int64_t)(sample - w->first[demo]);
            int rc = k == MF_DEMO_ACTIONS ? take(w, k, demo, t - s->action_offset, s->horizon, actions + place * D,
                                                 (size_t)mf_action_width(s), err)
                                          : take(w, k, demo, t + 1 - s->n_obs_steps + (ahead ? ahead[place] : 0),
                                                 s->n_obs_steps, obs + place * O + at, (size_t)s->obs.dim, err);
            if (rc)
                return rc;
        }
        at += k == MF_DEMO_ACTIONS ? 0 : (size_t)mf_obs_size(&s->obs.key[k - 1]);
    }
    return 0;
}

/* The state is in the prompts of all steps. */
static int speak(struct mf_dataset *w, size_t n, const uint32_t *index, float *obs, struct mf_err *err)
{
    const struct mf_policy_spec *s = &w->p->spec;
    const struct mf_affine norm = mf_policy_state(w->p);
    const size_t steps = (size_t)s->n_obs_steps, dim = (size_t)s->obs.dim;
    int rc = 0;
    for (size_t i = 0; i < n * steps && norm.scale && !rc; i++)
        rc = mf_demos_prompt(w->d, demo_of(w, index[i / steps]), &s->obs, &norm, obs + i * dim, err);
    return rc;
}

static struct mf_rng rng_of(const struct mf_dataset *w, enum mf_purpose purpose, size_t i)
{
    return mf_rng_at(w->seed, purpose, (uint32_t)(w->step >> 32), (uint32_t)w->step, (uint32_t)i);
}

/* Every step of every sample by draws of its own. */
static void vary(struct mf_dataset *w, size_t n, float *obs)
{
    const struct mf_layout *l = &w->p->spec.obs;
    const size_t steps = n * (size_t)w->p->spec.n_obs_steps, dim = (size_t)l->dim;
    const bool shifts = (w->shift.reach || w->shift.crop) && mf_layout_pictures(l);
    for (size_t i = 0; i < steps && shifts; i++)
        mf_shift(&w->shift, l, rng_of(w, MF_RNG_SHIFT, i), obs + i * dim, w->scratch);
    for (size_t i = 0; i < steps && w->augmentation; i++)
        mf_augment(l, rng_of(w, MF_RNG_AUGMENT, i), obs + i * dim, w->scratch);
}

int mf_dataset_batch(struct mf_dataset *w, size_t n, const uint32_t *index, float *obs, float *actions,
                     struct mf_err *err)
{
    const struct mf_policy *p = w->p;
    size_t A = (size_t)p->spec.action_dim, W = (size_t)mf_action_width(&p->spec), steps = n * (size_t)p->spec.horizon;
    int rc = gather(w, n, index, NULL, obs, actions, err);
    if (rc || (rc = speak(w, n, index, obs, err)))
        return rc;
    vary(w, n, obs);
    mf_policy_normalize(p, n, obs, obs);
    for (size_t i = 0; i < steps; i++)
        for (size_t j = 0; j < W; j++)
            actions[i * W + j] = j < A ? actions[i * W + j] * p->action_scale[j] + p->action_offset[j] : 0;
    return 0;
}

int mf_dataset_after(struct mf_dataset *w, size_t n, const uint32_t *index, const int32_t *ahead, float *obs,
                     struct mf_err *err)
{
    int rc = gather(w, n, index, ahead, obs, NULL, err);
    if (rc == 0 && (rc = speak(w, n, index, obs, err)) == 0)
        mf_policy_normalize(w->p, n, obs, obs);
    return rc;
}
