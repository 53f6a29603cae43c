#include "rl/advantage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const struct mf_bind mf_advantage_binds[] = {{"advantage.gamma", offsetof(struct mf_advantage, gamma)},
                                             {"advantage.discount", offsetof(struct mf_advantage, discount)},
                                             {"advantage.reward", offsetof(struct mf_advantage, reward)},
                                             {"advantage.compat", offsetof(struct mf_advantage, compat)},
                                             {0}};

/* Everything that walk() calls is inlined into it, so that it is compiled for the caller's instruction set. */
#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = 1024 }; /* environments at a time: their rows of a step stay in the L1 cache */

struct inputs {
    const struct mf_advantage *a;
    const struct mf_rollout *r;
    const float *power;   /* gamma^0..C */
    const float *zero;    /* (N) */
    const uint8_t *all;   /* (BLOCK) of 1 */
    const int32_t *chunk; /* (BLOCK) of C */
};

/* A block of environments at one step. */
struct row {
    float r[BLOCK], g[BLOCK];
    const float *v, *next, *final;
    const uint8_t *terminated, *truncated, *k0, *k1, *n0, *n1; /* k: masks of this step; n: of the next */
    int32_t inside, sees_final, ends, zeroes;
};

/* The inputs of the estimators at one decision; 0, and go = 0, where it is masked. */
struct cell {
    float r, v, g, next; /* next: nv */
    int32_t go;          /* the episode continues at t+1 */
};

static bool kept(const struct mf_rollout *r, size_t i)
{
    return (!r->valid || r->valid[i]) && (!r->loss_mask || r->loss_mask[i]);
}

/* The reward of each decision, from the executed actions; and g. Masked entries get any value. */
INLINE void fill_rewards(const struct inputs *w, size_t at, size_t n, struct row *s)
{
    const struct mf_rollout *r = w->r;
    const int32_t *ran = r->n_exec ? r->n_exec + at : w->chunk;
    const float *x = r->rewards_scaled ? r->rewards_scaled + at : r->rewards + at * r->C;
    const size_t C = r->rewards_scaled ? 1 : r->C;
    const bool max = w->a->reward == MF_REWARD_MAX, by_step = w->a->discount == MF_DISCOUNT_STEP;
    for (size_t i = 0; i < n; i++)
        s->r[i] = x[i * C];
    for (size_t k = 1; k < C; k++) {
        const float weight = by_step ? w->power[k] : 1.0f, none = max ? -INFINITY : 0.0f;
        for (size_t i = 0; i < n; i++) {
            float y = x[i * C + k];
            y = (int32_t)k < ran[i] ? y : none;
            s->r[i] = max ? (y > s->r[i] ? y : s->r[i]) : s->r[i] + weight * y;
        }
    }
    for (size_t i = 0; i < n; i++)
        s->g[i] = !by_step ? (float)w->a->gamma : w->power[(size_t)ran[i] <= r->C ? ran[i] : 0];
}

/* Environments [first, first + n) of step t. */
INLINE void fill(const struct inputs *w, size_t t, size_t first, size_t n, struct row *s)
{
    const struct mf_rollout *r = w->r;
    const int compat = w->a->compat;
    const bool inside = t + 1 < r->T;
    const size_t at = t * r->N + first, after = inside ? at + r->N : at;
    s->inside = inside;
    s->sees_final = compat == MF_COMPAT_NONE;
    s->ends = compat != MF_COMPAT_DPPO;
    s->zeroes = compat == MF_COMPAT_CLEANRL || compat == MF_COMPAT_SEED;
    s->v = r->prev_values + at;
    s->next = inside ? r->prev_values + after : (compat == MF_COMPAT_SEED ? w->zero : r->last_values) + first;
    s->final = r->final_values ? r->final_values + at : w->zero + first;
    s->terminated = r->terminated + at;
    s->truncated = r->truncated + at;
    s->k0 = r->valid ? r->valid + at : w->all;
    s->k1 = r->loss_mask ? r->loss_mask + at : w->all;
    s->n0 = r->valid && inside ? r->valid + after : w->all;
    s->n1 = r->loss_mask && inside ? r->loss_mask + after : w->all;
    fill_rewards(w, at, n, s);
}

/* Selects instead of branches: a product with a mask would keep a NaN. */
INLINE struct cell cell_at(const struct row *s, bool masked, size_t i)
{
    const int32_t keep = !masked || ((s->k0[i] != 0) & (s->k1[i] != 0));
    const int32_t more = !masked || ((s->n0[i] != 0) & (s->n1[i] != 0));
    const int32_t dead = s->terminated[i] != 0, limit = (s->truncated[i] != 0) & !dead;
    const float last = s->final[i], value = s->v[i], reward = s->r[i];
    float next = s->next[i];
    next = more ? next : 0.0f;
    next = (limit & s->sees_final) ? last : next;
    next = (dead | (limit & s->zeroes)) ? 0.0f : next;
    return (struct cell){
        .r = keep ? reward : 0.0f,
        .v = keep ? value : 0.0f,
        .g = s->g[i],
        .next = keep ? next : 0.0f,
        .go = keep & more & s->inside & !dead & !(limit & s->ends),
    };
}

INLINE void gae(const struct row *s, bool masked, float lambda, size_t n, const float *restrict after,
                float *restrict adv, float *restrict ret)
{
    for (size_t i = 0; i < n; i++) {
        const struct cell c = cell_at(s, masked, i);
        float trace = after[i];
        trace = c.go ? trace : 0.0f;
        const float now = c.r + c.g * c.next - c.v + c.g * lambda * trace;
        adv[i] = now;
        ret[i] = now + c.v;
    }
}

/* R_t from R_{t+1}, or from nv where the episode ends. */
INLINE void target(const struct row *s, bool masked, size_t n, const float *restrict after, float *restrict ret)
{
    for (size_t i = 0; i < n; i++) {
        const struct cell c = cell_at(s, masked, i);
        float next = after[i];
        next = c.go ? next : c.next;
        ret[i] = c.r + c.g * next;
    }
}

/* G^1..G^depth: the k-step targets. In place from the deepest one on, so that G^{k-1} is still that of t+1. */
INLINE void nested(const struct row *s, bool masked, size_t n, size_t depth, size_t stride, float *restrict g,
                   float *restrict ret)
{
    for (size_t k = depth; k-- > 1;)
        target(s, masked, n, g + (k - 1) * stride, g + k * stride);
    for (size_t i = 0; i < n; i++) {
        const struct cell c = cell_at(s, masked, i);
        g[i] = c.r + c.g * c.next;
    }
    memcpy(ret, g + (depth - 1) * stride, n * sizeof *ret);
}

INLINE void minus_values(const struct row *s, bool masked, size_t n, const float *restrict ret, float *restrict adv)
{
    for (size_t i = 0; i < n; i++)
        adv[i] = ret[i] - cell_at(s, masked, i).v;
}

static int check(const struct mf_rollout *r, struct mf_err *err)
{
    for (size_t i = 0; (r->valid || r->loss_mask) && i < (r->T - 1) * r->N; i++)
        if (kept(r, i) && !(r->terminated[i] | r->truncated[i]) && !kept(r, i + r->N))
            return mf_err_set(
                err, MF_EFORMAT,
                "environment %zu goes from a valid step %zu to a masked one without terminated or truncated", i % r->N,
                i / r->N);
    return 0;
}

INLINE void walk_back(const struct inputs *w, bool masked, enum mf_estimator how, size_t depth, float *g, float *adv,
                      float *ret)
{
    const size_t N = w->r->N;
    struct row s;
    for (size_t t = w->r->T; t-- > 0;)
        for (size_t first = 0; first < N; first += BLOCK) {
            size_t n = N - first < BLOCK ? N - first : BLOCK, at = t * N + first;
            bool last = t + 1 == w->r->T;
            fill(w, t, first, n, &s);
            if (how == MF_GAE) {
                const float *after = last ? w->zero + first : adv + at + N;
                gae(&s, masked, (float)w->a->gae_lambda, n, after, adv + at, ret + at);
                continue;
            }
            if (how == MF_MC)
                target(&s, masked, n, last ? w->zero + first : ret + at + N, ret + at);
            else
                nested(&s, masked, n, depth, N, g + first, ret + at);
            minus_values(&s, masked, n, ret + at, adv + at);
        }
}

INLINE void walk(const struct inputs *w, enum mf_estimator how, size_t depth, float *g, float *adv, float *ret)
{
    if (w->r->valid || w->r->loss_mask)
        walk_back(w, true, how, depth, g, adv, ret);
    else
        walk_back(w, false, how, depth, g, adv, ret);
}

/* Not by target_clones: its resolver runs before ThreadSanitizer is initialised. */
__attribute__((target("avx2"))) static void walk_avx2(const struct inputs *w, enum mf_estimator how, size_t depth,
                                                      float *g, float *adv, float *ret)
{
    walk(w, how, depth, g, adv, ret);
}

static void walk_plain(const struct inputs *w, enum mf_estimator how, size_t depth, float *g, float *adv, float *ret)
{
    walk(w, how, depth, g, adv, ret);
}

int mf_advantage(const struct mf_advantage *a, enum mf_estimator how, const struct mf_rollout *r, float *advantages,
                 float *returns, struct mf_err *err)
{
    if (a->reward == MF_REWARD_MAX && a->discount == MF_DISCOUNT_STEP)
        return mf_err_set(err, MF_EUSAGE, "advantage.reward=max needs advantage.discount=chunk");
    int rc = check(r, err);
    if (rc)
        return rc;
    const size_t N = r->N, depth = how != MF_NSTEP ? 0 : (size_t)a->n_step < r->T ? (size_t)a->n_step : r->T;
    void *p;
    if ((rc = mf_alloc(&p, ((depth + 1) * N + r->C + 1) * sizeof(float), "the estimator", err)))
        return rc;
    float *zero = p, *g = zero + N, *power = g + depth * N;
    uint8_t all[BLOCK];
    int32_t chunk[BLOCK];
    memset(all, 1, sizeof all);
    for (int i = 0; i < BLOCK; i++)
        chunk[i] = (int32_t)r->C;
    double gamma = 1;
    for (size_t c = 0; c <= r->C; c++, gamma *= a->gamma)
        power[c] = (float)gamma;
    const struct inputs w = {a, r, power, zero, all, chunk};
    (__builtin_cpu_supports("avx2") ? walk_avx2 : walk_plain)(&w, how, depth, g, advantages, returns);
    free(p);
    return 0;
}

int mf_advantage_add(const struct mf_advantage *a, enum mf_estimator how, struct mf_frame *f, struct mf_err *err)
{
    struct mf_rollout r;
    void *adv, *ret, *zero = NULL;
    const bool critic = how != MF_MC || mf_frame_find(f, "prev_values");
    int rc;
    if ((rc = mf_rollout_bind(&r, f, critic ? MF_NEED_VALUES : 0, err)) ||
        (rc = mf_frame_add(f, "advantages", MF_F32, 2, (size_t[]){r.T, r.N}, &adv, err)) ||
        (rc = mf_frame_add(f, "returns", MF_F32, 2, (size_t[]){r.T, r.N}, &ret, err)) ||
        (!critic && (rc = mf_alloc(&zero, r.T * r.N * sizeof(float), "values of 0", err))))
        return rc;
    if (!critic)
        r.prev_values = r.last_values = r.final_values = zero;
    rc = mf_advantage(a, how, &r, adv, ret, err);
    free(zero);
    return rc;
}

/* Copies are added one by one: the same bits as for an array that holds the copies. */
void mf_advantage_normalize(float *a, const uint32_t *count, size_t n)
{
    double sum = 0, squares = 0;
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = count ? count[i] : 1; c > 0; c--, all++)
            sum += (double)a[i];
    const double mean = all ? sum / (double)all : 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = count ? count[i] : 1; c > 0; c--)
            squares += ((double)a[i] - mean) * ((double)a[i] - mean);
    const double scale = 1 / ((all > 1 ? sqrt(squares / (double)(all - 1)) : 0) + 1e-8);
    for (size_t i = 0; i < n; i++)
        a[i] = !count || count[i] ? (float)(((double)a[i] - mean) * scale) : 0.0f;
}
