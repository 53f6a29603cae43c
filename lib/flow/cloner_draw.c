/* cloner_draw.c - the rows of a minibatch: their memory, noise, times and flow targets. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "flow/cloner_priv.h"

enum { SHORTCUT_LOG2 = 7 };            /* log2 of the largest step count of shortcut models: 128 */
enum { TAUGHT = 4 };                   /* one sample of so many has a teacher */
static const float CFM_MARGIN = 1e-3f; /* of cfm's times from both ends */
enum { BLOCK = 16 };                   /* rows that one worker draws at a time */

static void place(struct mf_cloner *m, size_t n, struct mf_arena *a)
{
    const size_t D = (size_t)m->p->spec.net.D;
    float **wide[] = {&m->x, &m->v, &m->target, &m->x2},
          **narrow[] = {&m->t, &m->d, &m->weight, &m->loss, &m->t2, &m->d2, &m->key};
    for (int i = 0; i < 4; i++)
        *wide[i] = mf_arena_take(a, n * D, sizeof(float));
    for (int i = 0; i < 7; i++)
        *narrow[i] = mf_arena_take(a, n, sizeof(float));
}

/* Of n samples, the last ones. */
static size_t with_teacher(enum mf_clone_loss kind, size_t n)
{
    if (kind == MF_CLONE_FLOW)
        return 0;
    return kind == MF_CLONE_CFM ? n - n * (TAUGHT - 1) / TAUGHT : n / TAUGHT;
}

void mf_cloner_memory(const struct mf_cloner *c, size_t n, struct mf_memory *to)
{
    struct mf_cloner counted = *c;
    struct mf_arena arena = {0};
    place(&counted, n, &arena);
    to->of[MF_MEMORY_ROWS] += (double)arena.used;
    mf_plan_memory(c->student.plan, n, to);
    if (!c->other.plan)
        return;
    to->of[MF_MEMORY_WEIGHTS] += (double)(c->teacher.size * sizeof(float));
    mf_engine_memory(c->e, (double)c->teacher.size, to);
    mf_plan_memory(c->other.plan, with_teacher(c->kind, n), to);
}

static int make_room(struct mf_cloner *m, size_t n, struct mf_err *err)
{
    if (n <= m->room)
        return 0;
    mf_arena_release(&m->arena);
    m->room = 0;
    place(m, n, &m->arena);
    int rc = mf_arena_alloc(&m->arena, "a minibatch", err);
    if (rc)
        return rc;
    place(m, n, &m->arena);
    m->room = n;
    return 0;
}

static float draw_time(struct mf_rng *rng, enum mf_time_sampling sampling)
{
    float z;
    switch (sampling) {
    case MF_TIME_LOGIT_NORMAL:
        mf_rng_normal(rng, &z, 1);
        return 1 / (1 + expf(-z));
    case MF_TIME_BETA: /* .999 (1 - Beta(1.5, 1)), by the inverse of its distribution */
        return .999f * (1 - powf(mf_rng_uniform(rng), 1 / 1.5f));
    default:
        return mf_rng_uniform(rng);
    }
}

static const float *action(const struct mf_cloner *m, size_t i)
{
    return m->actions + (m->index ? m->index[i] : i) * (size_t)m->p->spec.net.D;
}

/* x = (1-t) noise + t data */
static void mix(float *x, const float *noise, const float *data, float t, int D)
{
    for (int j = 0; j < D; j++)
        x[j] = (1 - t) * noise[j] + t * data[j];
}

/* Times and step sizes of a row with a teacher: the student's and the teacher's. */
static void draw_taught(struct mf_cloner *m, size_t i, struct mf_rng *rng)
{
    if (m->kind == MF_CLONE_SHORTCUT) {
        uint32_t k = mf_rng_below(rng, SHORTCUT_LOG2), j = mf_rng_below(rng, 1u << k);
        m->d[i] = ldexpf(1, -(int)k);
        m->t[i] = m->t2[i] = (float)j * m->d[i];
        m->d2[i] = m->d[i] / 2;
    } else if (m->kind == MF_CLONE_CFM) {
        m->d[i] = m->d2[i] = 0;
        m->t[i] = 1 - (CFM_MARGIN + (1 - 2 * CFM_MARGIN) * mf_rng_uniform(rng));
        m->t2[i] = fminf(m->t[i] + mf_rng_range(rng, .01f, .1f), 1 - CFM_MARGIN);
    } else {
        m->t[i] = (float)mf_rng_below(rng, 10) / 10;
        m->d[i] = m->d2[i] = mf_rng_uniform(rng);
        m->t2[i] = fminf(m->t[i] + m->d[i], 1);
    }
}

/* The noise, times and flow target of row i; in a row with a teacher, the teacher's inputs, too. */
static void draw(struct mf_cloner *m, size_t i)
{
    struct mf_rng rng = mf_rng_at(m->seed, MF_RNG_CLONE, (uint32_t)i, (uint32_t)(m->step >> 32), (uint32_t)m->step);
    int D = m->p->spec.net.D;
    const float *data = action(m, i);
    float *noise = m->target + i * (size_t)D, *x = m->x + i * (size_t)D, *x2 = m->x2 + i * (size_t)D;
    mf_rng_normal(&rng, noise, (size_t)D);
    m->weight[i] = 1.0f / (float)m->n;
    struct mf_rng drop = mf_rng_at(m->seed, MF_RNG_DROPOUT, (uint32_t)i, (uint32_t)(m->step >> 32), (uint32_t)m->step);
    uint32_t key = mf_rng_u32(&drop);
    memcpy(&m->key[i], &key, sizeof key);
    if (i + m->taught < m->n) {
        m->t[i] = draw_time(&rng, m->sampling);
        m->d[i] = 0;
    } else {
        draw_taught(m, i, &rng);
    }
    if (m->kind == MF_CLONE_CONSISTENCY) /* the loss has a mean over each of the two kinds of rows */
        m->weight[i] = 1.0f / (float)(i + m->taught < m->n ? m->n - m->taught : m->taught);
    mix(x, noise, data, m->t[i], D);
    mix(x2, noise, data, m->t2[i], D);
    for (int j = 0; j < D; j++)
        m->target[i * (size_t)D + (size_t)j] = data[j] - noise[j];
}

static void draw_block(void *arg, int block)
{
    struct mf_cloner *m = arg;
    for (size_t i = (size_t)block * BLOCK; i < m->n && i < (size_t)(block + 1) * BLOCK; i++)
        draw(m, i);
}

int mf_cloner_draw(struct mf_cloner *m, const struct mf_clone_batch *b, struct mf_err *err)
{
    int rc = make_room(m, b->n, err);
    if (rc)
        return rc;
    m->step = b->step;
    m->n = b->n;
    m->taught = with_teacher(m->kind, b->n);
    m->index = b->index;
    m->actions = b->actions;
    mf_engine_each(m->e, (int)((b->n + BLOCK - 1) / BLOCK), draw_block, m);
    m->drawn = true;
    return 0;
}
