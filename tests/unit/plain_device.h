/* plain_device.h - a device by the reference loops, in a memory of its own. Its addresses are shifted, so that a read
 * or write outside this file crashes, and new memory is NaN until data is put there.
 *
 * A test program runs on it by including this file before its own: the devices "cpu" and "ref" are then this one. */
#ifndef MF_PLAIN_DEVICE_H
#define MF_PLAIN_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/plan.h"

#define PLAIN_SHIFT ((uintptr_t)1 << 62) /* an address beyond those of any processor */

static float *plain_hide(float *p)
{
    return (float *)((uintptr_t)p + PLAIN_SHIFT);
}

static float *plain_show(const float *p)
{
    return (float *)((uintptr_t)p - PLAIN_SHIFT);
}

enum { PLAIN_AHEAD = 2, PLAIN_HELD = 16 };

struct mf_dev {
    int taken; /* allocated pieces of memory */
    struct plain_held {
        const float *base;
        float *copy; /* NULL: free */
    } held[PLAIN_HELD];
};

/* A job that has run: what `finish` writes for the host. */
struct plain_job {
    struct plain_copy {
        float *from, *to;
        size_t rows, cols, stride;
    } * copy;
    int n;
    struct mf_verdict verdict, *to;
};

struct mf_program {
    struct mf_dev *dev;
    const struct mf_listing *l;
    float *tile, *shared, *sum, *work, *veto;
    struct mf_call *call;
    uint64_t weights, sets; /* versions that shared values were computed from */
    double veto_sum;
    bool vetoed; /* a step since the first of its update */
    struct plain_job job[PLAIN_AHEAD];
    int started; /* and not finished; the oldest first */
};

static int plain_open_device(struct mf_dev **d, const char *which, struct mf_workers *workers,
                             enum mf_precision precision, struct mf_err *err)
{
    (void)which, (void)workers, (void)precision, (void)err;
    *d = calloc(1, sizeof **d);
    return 0;
}

static void plain_close(struct mf_dev *d)
{
    bool held = false;
    for (int i = 0; i < PLAIN_HELD; i++)
        held |= d->held[i].copy != NULL;
    if (d->taken || held)
        abort();
    free(d);
}

static const char *plain_describe(const struct mf_dev *d)
{
    (void)d;
    return "plain loops";
}

static int plain_usage(const struct mf_dev *d, struct mf_device_usage *u)
{
    *u = (struct mf_device_usage){d->taken, 1 << 20, -1};
    return 1;
}

static int plain_hold(struct mf_dev *d, const float *base, size_t floats, struct mf_err *err)
{
    int i = 0;
    (void)err;
    while (i < PLAIN_HELD && d->held[i].copy)
        i++;
    if (i == PLAIN_HELD)
        abort();
    d->held[i] = (struct plain_held){base, malloc((floats + 1) * sizeof *base)};
    memcpy(d->held[i].copy, base, floats * sizeof *base);
    return 0;
}

static void plain_let_go(struct mf_dev *d, const float *base)
{
    for (int i = 0; i < PLAIN_HELD; i++)
        if (d->held[i].copy && d->held[i].base == base) {
            free(d->held[i].copy);
            d->held[i].copy = NULL;
        }
}

/* Where a feed reads: what is held has not changed since. */
static const float *plain_source(const struct mf_dev *d, const struct mf_feed *f)
{
    for (int i = 0; i < PLAIN_HELD; i++)
        if (!f->direct && d->held[i].copy && d->held[i].base == f->base)
            return d->held[i].copy;
    return f->base;
}

static float *plain_take(struct mf_dev *d, float *host, size_t floats, const char *what, struct mf_err *err)
{
    float *p = malloc((floats + 1) * sizeof *p);
    (void)host, (void)what, (void)err;
    d->taken++;
    for (size_t i = 0; i < floats; i++)
        p[i] = NAN;
    return plain_hide(p);
}

static void plain_give(struct mf_dev *d, float *p, float *host, size_t floats)
{
    (void)host, (void)floats;
    d->taken--;
    free(plain_show(p));
}

static int plain_put(struct mf_dev *d, float *to, const float *host, size_t floats, struct mf_err *err)
{
    (void)d, (void)err;
    memcpy(plain_show(to), host, floats * sizeof *host);
    return 0;
}

static int plain_get(struct mf_dev *d, float *host, const float *from, size_t floats, struct mf_err *err)
{
    (void)d, (void)err;
    memcpy(host, plain_show(from), floats * sizeof *host);
    return 0;
}

static int plain_copy(struct mf_dev *d, float *to, const float *from, size_t floats, struct mf_err *err)
{
    return plain_put(d, to, plain_show(from), floats, err);
}

static int plain_samples(const struct mf_dev *d, size_t floats)
{
    (void)d, (void)floats;
    return 48;
}

/* ---- a program ---- */

static float *plain_at(const struct mf_program *p, struct mf_site s)
{
    float *const base[] = {
        [MF_NOWHERE] = NULL, [MF_IN_TILE] = p->tile, [MF_IN_SHARED] = p->shared, [MF_IN_TAIL] = p->sum};
    return s.space ? base[s.space] + s.at : NULL;
}

static struct mf_tensor plain_tensor(const struct mf_program *p, const struct mf_operand *o)
{
    return (struct mf_tensor){.data = plain_at(p, o->data),
                              .grad = plain_at(p, o->grad),
                              .rows = o->rows,
                              .cols = o->cols,
                              .heads = o->heads,
                              .shared = o->shared,
                              .add = o->add};
}

static int plain_compile(struct mf_program **out, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err)
{
    struct mf_program *p = *out = calloc(1, sizeof *p);
    const float *weights = l->weights ? plain_show(l->weights) : NULL;
    size_t work = 0;
    (void)err;
    *p = (struct mf_program){.dev = d, .l = l, .weights = UINT64_MAX};
    p->tile = calloc(l->tile + 1, sizeof *p->tile);
    p->shared = calloc(l->shared + 1, sizeof *p->shared);
    p->sum = calloc(l->lane + 1, sizeof *p->sum);
    p->veto = calloc((size_t)l->samples, sizeof *p->veto);
    p->call = calloc((size_t)l->n_calls, sizeof *p->call);
    for (int i = 0; i < l->n_calls; i++) {
        const struct mf_listed *c = &l->call[i];
        struct mf_tensor *x = calloc((size_t)c->n_x + 1, sizeof *x);
        for (int k = 0; k < c->n_x; k++)
            x[k] = plain_tensor(p, &c->x[k]);
        p->call[i] = (struct mf_call){
            .how = c->how,
            .y = plain_tensor(p, &c->y),
            .x = x,
            .n_x = c->n_x,
            .aux = plain_at(p, c->aux),
            .W = weights && c->W >= 0 ? weights + c->W : NULL,
            .b = weights && c->b >= 0 ? weights + c->b : NULL,
            .ldw = c->ldw,
            .dW = c->dW,
            .db = c->db,
        };
        size_t needs = c->op->work ? c->op->work(&p->call[i], l->samples, c->back) : 0;
        work = needs > work ? needs : work;
    }
    p->work = calloc(work + 1, sizeof *p->work);
    for (int i = 0; i < l->n_calls; i++)
        p->call[i].work = p->work;
    return 0;
}

static void plain_forget(struct mf_program *p)
{
    if (p->started)
        abort();
    for (int i = 0; i < p->l->n_calls; i++)
        free(p->call[i].x);
    free(p->call);
    free(p->tile), free(p->shared), free(p->sum), free(p->work), free(p->veto);
    free(p);
}

static void plain_memory(const struct mf_program *p, size_t n, struct mf_memory *to)
{
    (void)n;
    to->of[MF_MEMORY_ACTIVATIONS] += (double)((p->l->tile + p->l->shared) * sizeof(float));
}

static int plain_set(struct mf_program *p, int value, const float *host, struct mf_err *err)
{
    const struct mf_value_at *v = &p->l->value[value];
    (void)err;
    memcpy(p->shared + v->data.at, host, (size_t)v->rows * (size_t)v->cols * sizeof *host);
    return 0;
}

/* ---- a run: tile after tile ---- */

/* Into the copies that `finish` writes for the host. */
static void plain_fetch(const struct mf_program *p, const struct mf_job *j, int value, size_t first, size_t n)
{
    const struct mf_batch *b = j->batch;
    const struct plain_job *job = &p->job[p->started];
    const struct mf_value_at *v = &p->l->value[value];
    const float *from = plain_at(p, v->data);
    size_t size = (size_t)v->rows * (size_t)v->cols;
    for (int i = 0; i < b->n_fetches; i++)
        for (size_t s = 0; p->l->value[b->fetch[i].value.id].root == value && s < n; s++)
            memcpy(job->copy[i].from + (first + s) * size, from + (v->shared ? 0 : s * size), size * sizeof *from);
    if (j->step && j->step->veto.id && p->l->value[j->step->veto.id].root == value)
        memcpy(p->veto, from, n * sizeof *from);
}

static void plain_tile(struct mf_program *p, const struct mf_job *j, size_t first, int n)
{
    const struct mf_listing *l = p->l;
    const struct mf_batch *b = j->batch;
    for (int i = 0; i < b->n_feeds; i++) {
        const struct mf_feed *f = &b->feed[i];
        const struct mf_value_at *v = &l->value[f->input.id];
        const float *base = plain_source(p->dev, f);
        size_t size = (size_t)v->rows * (size_t)v->cols;
        for (size_t s = 0; s < (size_t)n; s++)
            memcpy(p->tile + v->data.at + s * size,
                   base + (b->index && !f->direct ? b->index[first + s] : first + s) * f->stride,
                   size * sizeof *f->base);
    }
    for (int v = 1; v < l->n_values; v++)
        if (l->value[v].input && l->value[v].root == v)
            plain_fetch(p, j, v, first, (size_t)n);
    for (int i = 0; i < l->n_calls; i++) {
        if (!l->call[i].shared)
            l->call[i].op->forward(&p->call[i], n);
        plain_fetch(p, j, l->call[i].value, first, (size_t)n);
    }
    for (int s = 0; j->step && j->step->veto.id && s < n; s++)
        p->veto_sum += (double)p->veto[s];
    if (!l->backward)
        return;
    for (int i = 0; i < l->n_starts; i++)
        for (int s = 0; s < n && !l->start[i].shared; s++)
            plain_at(p, l->start[i].grad)[s] = l->start[i].scale;
    for (int i = l->n_calls - 1; i >= 0; i--)
        if (l->call[i].back && !l->call[i].shared)
            l->call[i].op->backward(&p->call[i], n, p->sum);
    for (int i = 0; i < l->n_tails; i++)
        for (size_t k = 0; k < l->tail[i].floats; k++)
            p->sum[l->tail[i].at + k] += plain_at(p, l->tail[i].grad)[k];
}

static void plain_shared_back(struct mf_program *p, size_t n)
{
    const struct mf_listing *l = p->l;
    for (int i = 0; i < l->n_starts; i++)
        if (l->start[i].shared && l->start[i].grad.space == MF_IN_TAIL)
            *plain_at(p, l->start[i].grad) += l->start[i].scale * (float)n;
        else if (l->start[i].shared)
            *plain_at(p, l->start[i].grad) = l->start[i].scale * (float)n;
    for (int i = l->n_calls - 1; i >= 0; i--)
        if (l->call[i].back && l->call[i].shared)
            l->call[i].op->backward(&p->call[i], 1, p->sum);
}

static void plain_adam(const struct mf_program *p, const struct mf_step *s, const struct mf_piece *of, double scale)
{
    float *w = plain_show(p->l->weights), *m = plain_show(s->of.m), *v = plain_show(s->of.v);
    double steps = (double)((const int64_t *)plain_show((float *)s->of.step))[of->group], lr = s->lr[of->group];
    for (size_t j = of->at; of->trained && lr > 0 && j < of->at + of->floats; j++) {
        double g = (double)p->sum[j] * scale;
        m[j] = (float)(s->beta1 * (double)m[j] + (1 - s->beta1) * g);
        v[j] = (float)(s->beta2 * (double)v[j] + (1 - s->beta2) * g * g);
        double up = (double)m[j] / (1 - pow(s->beta1, steps)), down = (double)v[j] / (1 - pow(s->beta2, steps));
        w[j] = (float)((1 - lr * s->weight_decay) * (double)w[j] - lr * up / (sqrt(down) + s->eps));
    }
    for (size_t j = of->at; s->of.ema && (s->averaged >> of->group & 1) && j < of->at + of->floats; j++) {
        float *ema = plain_show(s->of.ema);
        ema[j] = (float)(s->ema_decay * (double)ema[j] + (1 - s->ema_decay) * (double)w[j]);
    }
}

static void plain_step(struct mf_program *p, const struct mf_step *s, struct mf_verdict *v)
{
    const struct mf_listing *l = p->l;
    int64_t *steps = (int64_t *)plain_show((float *)s->of.step);
    *v = (struct mf_verdict){.veto = p->veto_sum};
    for (int i = 0; i < l->n_pieces; i++)
        for (size_t j = l->piece[i].at; j < l->piece[i].at + l->piece[i].floats; j++) {
            double square = (double)p->sum[j] * (double)p->sum[j];
            v->norm[l->piece[i].group] += square;
            v->total += l->piece[i].trained ? square : 0;
        }
    for (int g = 0; g < MF_DEVICE_GROUPS; g++)
        v->norm[g] = sqrt(v->norm[g]);
    v->total = sqrt(v->total);
    v->finite = isfinite(v->total);
    p->vetoed = (p->vetoed && !s->first) || (s->veto.id && v->veto > s->most);
    v->vetoed = p->vetoed;
    v->stepped = v->finite && !v->vetoed;
    for (int g = 0; v->stepped && g < MF_DEVICE_GROUPS; g++)
        steps[g] += s->lr[g] > 0;
    for (int i = 0; v->stepped && i < l->n_pieces; i++) {
        double norm = s->separate ? v->norm[l->piece[i].group] : v->total;
        plain_adam(p, s, &l->piece[i], s->max_norm > 0 && norm > s->max_norm ? s->max_norm / norm : 1);
    }
}

/* Room for what the job fetches. */
static void plain_open_job(struct mf_program *p, const struct mf_job *j)
{
    const struct mf_batch *b = j->batch;
    struct plain_job *job = &p->job[p->started];
    *job = (struct plain_job){.n = b->n_fetches, .to = j->verdict};
    job->copy = calloc((size_t)job->n + 1, sizeof *job->copy);
    for (int i = 0; i < job->n; i++) {
        const struct mf_value_at *v = &p->l->value[b->fetch[i].value.id];
        struct plain_copy c = {.to = b->fetch[i].base, b->n, (size_t)v->rows * (size_t)v->cols, b->fetch[i].stride};
        c.from = calloc(c.rows * c.cols + 1, sizeof *c.from);
        job->copy[i] = c;
    }
}

/* The host cannot read fetches and verdict before `finish`. */
static void plain_spoil(const struct plain_job *job)
{
    for (int i = 0; i < job->n; i++)
        for (size_t s = 0; s < job->copy[i].rows; s++)
            for (size_t k = 0; k < job->copy[i].cols; k++)
                job->copy[i].to[s * job->copy[i].stride + k] = NAN;
    if (job->to)
        memset(job->to, 0xff, sizeof *job->to);
}

static int plain_start(struct mf_program *p, const struct mf_job *j, struct mf_err *err)
{
    const struct mf_listing *l = p->l;
    (void)err;
    if (p->started == PLAIN_AHEAD)
        abort();
    plain_open_job(p, j);
    for (int i = 0; (p->weights != j->weights || p->sets != j->sets) && i < l->n_calls; i++)
        if (l->call[i].shared)
            l->call[i].op->forward(&p->call[i], 1);
    p->weights = j->weights;
    p->sets = j->sets;
    p->veto_sum = 0;
    memset(p->sum, 0, l->lane * sizeof *p->sum);
    for (size_t at = 0; at < j->batch->n; at += (size_t)l->samples)
        plain_tile(p, j, at, j->batch->n - at < (size_t)l->samples ? (int)(j->batch->n - at) : l->samples);
    if (l->backward)
        plain_shared_back(p, j->batch->n);
    if (j->step)
        plain_step(p, j->step, &p->job[p->started].verdict);
    plain_spoil(&p->job[p->started++]);
    return 0;
}

static int plain_finish(struct mf_program *p, struct mf_err *err)
{
    struct plain_job job = p->job[0];
    (void)err;
    if (p->started == 0)
        abort();
    for (int i = 0; i < job.n; i++) {
        struct plain_copy c = job.copy[i];
        for (size_t s = 0; s < c.rows; s++)
            memcpy(c.to + s * c.stride, c.from + s * c.cols, c.cols * sizeof *c.to);
        free(c.from);
    }
    free(job.copy);
    if (job.to)
        *job.to = job.verdict;
    p->started--;
    memmove(p->job, p->job + 1, (size_t)p->started * sizeof *p->job);
    return 0;
}

static const float *plain_grads(struct mf_program *p)
{
    return plain_hide(p->sum);
}

static struct mf_device plain_device = {
    .name = "plain",
    .ahead = PLAIN_AHEAD,
    .own_memory = true,
    .open = plain_open_device,
    .close = plain_close,
    .describe = plain_describe,
    .usage = plain_usage,
    .take = plain_take,
    .give = plain_give,
    .put = plain_put,
    .get = plain_get,
    .copy = plain_copy,
    .hold = plain_hold,
    .let_go = plain_let_go,
    .samples = plain_samples,
    .compile = plain_compile,
    .forget = plain_forget,
    .memory = plain_memory,
    .set = plain_set,
    .start = plain_start,
    .finish = plain_finish,
    .grads = plain_grads,
};

static inline int plain_open(struct mf_engine **e, const char *device, int threads, enum mf_precision precision,
                             struct mf_err *err)
{
    bool plain = (!strcmp(device, "cpu") || !strcmp(device, "ref")) && precision == MF_FP32 && threads < 1000;
    return plain ? mf_engine_on(e, &plain_device, "", threads, precision, err)
                 : mf_engine_open(e, device, threads, precision, err);
}
#define mf_engine_open plain_open

#endif
