/* run.cu - a run: the host's rows go to page-locked memory and from there to the GPUs, waves of samples are computed,
 * and what was fetched comes back. Nothing waits here but finish and, of several ranks, the exchange of gradients.
 */
#include "cuda/nccl.h"
#include "cuda/program.h"

#include <cstdlib>
#include <cstring>

struct launching {
    mf_program *p;
    mf_running *r;
    const struct mf_job *job;
    const struct mf_batch *b;
    size_t per_wave, waves;               /* samples of a wave, at most */
    size_t wave_at, step_at, index_at;    /* bytes into `in`: by wave and GPU, by GPU, the index */
    const struct mf_feed *feed[MF_FEEDS]; /* by input */
    size_t feed_at[MF_FEEDS];             /* bytes into `in`; of rows that the device holds: 0 */
    size_t in_bytes, out_bytes, veto_bytes;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static size_t floats_of(const struct mf_value_at *v)
{
    return (size_t)v->rows * v->cols;
}

/* ---- where all lies in the buffers ---- */

static void lay_out_in(struct launching *x)
{
    const mf_program *p = x->p;
    size_t n = x->b->n, gpus = p->dev->n_gpus;
    x->wave_at = 0;
    x->step_at = aligned((x->waves ? x->waves : 1) * gpus * sizeof(mf_wave));
    x->index_at = x->step_at + aligned(gpus * sizeof(mf_step_in));
    x->in_bytes = x->index_at + aligned(n * sizeof *x->b->index);
    for (size_t i = 0; i < p->inputs.size(); i++) {
        const struct mf_feed *f = x->b->feed;
        while (p->l->value[f->input.id].root != p->inputs[i])
            f++;
        bool held = !f->direct && mf_held_on_gpu(p->dev, 0, f->base);
        x->feed[i] = f;
        x->feed_at[i] = held ? 0 : x->in_bytes;
        x->in_bytes += held ? 0 : aligned(n * floats_of(&p->l->value[p->inputs[i]]) * sizeof(float));
    }
}

static void lay_out_out(struct launching *x)
{
    mf_running *r = x->r;
    r->n = x->b->n;
    r->verdict = x->job->step ? x->job->verdict : NULL;
    r->fetch.assign(x->b->fetch, x->b->fetch + x->b->n_fetches);
    r->at.clear();
    r->floats.clear();
    x->out_bytes = 0;
    for (const mf_fetch &f : r->fetch) {
        r->floats.push_back(floats_of(&x->p->l->value[f.value.id]));
        r->at.push_back(x->out_bytes);
        x->out_bytes += aligned(r->n * r->floats.back() * sizeof(float));
    }
    r->verdict_at = x->out_bytes;
    x->out_bytes += aligned(sizeof(struct mf_verdict));
    x->veto_bytes = x->job->step && x->job->step->veto.id ? r->n * sizeof(float) : 0;
}

/* ---- buffers ---- */

static int grow_pinned(const mf_program *p, char **at, size_t *has, size_t wants, struct mf_err *err)
{
    if (wants <= *has)
        return 0;
    cudaSetDevice(p->dev->id[0]); /* else a new thread opens GPU 0, whichever the device is */
    cudaFreeHost(*at);
    *at = NULL;
    *has = 0;
    int rc = mf_cuda_check(p->dev, 0, cudaMallocHost((void **)at, wants), "allocating page-locked memory", err);
    *has = rc ? 0 : wants;
    return rc;
}

static int grow_part(const mf_program *p, int g, char **at, size_t *has, size_t wants, struct mf_err *err)
{
    if (wants <= *has)
        return 0;
    mf_gpu_give(p->dev, g, *at);
    *has = 0;
    *at = (char *)mf_gpu_take(p->dev, g, wants, "the rows of a run", err);
    *has = *at ? wants : 0;
    return *at ? 0 : err->code;
}

/* A run in progress may use the buffers of the GPUs, which all runs share: they grow when nothing runs. */
static int make_room(struct launching *x, struct mf_err *err)
{
    mf_program *p = x->p;
    mf_running *r = x->r;
    int rc = 0, room = mf_program_room_for(p, x->b->n);
    size_t staged = mf_program_staged(p, x->b->n);
    bool small = room > p->room || staged > p->staged_bytes;
    for (int g = 0; g < p->dev->n_gpus; g++)
        small = small || x->in_bytes > p->part[g].in_bytes || x->out_bytes > p->part[g].out_bytes ||
                x->veto_bytes > p->part[g].veto_bytes;
    if (small && (rc = mf_program_wait(p, err)))
        return rc;
    if (room > p->room && (rc = mf_program_grow(p, room, err)))
        return rc;
    if ((rc = grow_pinned(p, &r->in, &r->in_bytes, x->in_bytes, err)) == 0)
        rc = grow_pinned(p, &p->staged, &p->staged_bytes, staged, err);
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        mf_gpu_part *q = &p->part[g];
        if ((rc = grow_pinned(p, &r->out[g], &r->out_bytes[g], x->out_bytes, err)) == 0 &&
            (rc = grow_part(p, g, &q->in, &q->in_bytes, x->in_bytes, err)) == 0)
            rc = grow_part(p, g, &q->out, &q->out_bytes, x->out_bytes, err);
        if (rc == 0 && x->veto_bytes > q->veto_bytes) {
            mf_program_forget_graphs(q); /* which read it */
            rc = grow_part(p, g, (char **)&q->veto, &q->veto_bytes, x->veto_bytes, err);
        }
    }
    return rc;
}

/* ---- filling ---- */

static void fill_rows(struct launching *x)
{
    const struct mf_batch *b = x->b;
    if (b->index)
        memcpy(x->r->in + x->index_at, b->index, b->n * sizeof *b->index);
    for (size_t i = 0; i < x->p->inputs.size(); i++) {
        const struct mf_feed *f = x->feed[i];
        size_t floats = floats_of(&x->p->l->value[x->p->inputs[i]]);
        float *to = (float *)(x->r->in + x->feed_at[i]);
        for (size_t s = 0; x->feed_at[i] && s < b->n; s++, to += floats)
            memcpy(to, f->base + (b->index && !f->direct ? b->index[s] : s) * f->stride, floats * sizeof *to);
    }
}

static void fill_waves(struct launching *x, int g)
{
    const mf_gpu_part *q = &x->p->part[g];
    size_t count = x->waves ? x->waves : 1;
    for (size_t i = 0; i < count; i++) {
        mf_wave *w = (mf_wave *)(x->r->in + x->wave_at) + g * count + i;
        size_t first = i * x->per_wave, left = x->b->n - first, lanes = x->p->lanes;
        *w = {};
        w->n = x->b->n;
        w->first = first;
        w->samples = (int)(left < x->per_wave ? left : x->per_wave);
        w->each = (int)((w->samples + lanes - 1) / lanes);
        w->index = (const uint32_t *)(q->in + x->index_at);
        for (size_t k = 0; k < x->p->inputs.size(); k++) {
            const struct mf_feed *f = x->feed[k];
            bool held = x->feed_at[k] == 0;
            w->feed[k].base = held ? mf_held_on_gpu(x->p->dev, g, f->base) : (const float *)(q->in + x->feed_at[k]);
            w->feed[k].stride = held ? f->stride : floats_of(&x->p->l->value[x->p->inputs[k]]);
            w->feed[k].indexed = held && x->b->index;
        }
        for (size_t k = 0; k < x->r->fetch.size(); k++)
            w->fetch[k] = (float *)(q->out + x->r->at[k]);
        w->fetch[x->r->fetch.size()] = q->veto;
    }
}

static void fill_step(struct launching *x, int g)
{
    mf_step_in *s = (mf_step_in *)(x->r->in + x->step_at) + g;
    const struct mf_dev *d = x->p->dev;
    *s = {};
    if (!x->job->step)
        return;
    s->step = *x->job->step;
    s->step.of.m = mf_on_gpu(d, g, s->step.of.m);
    s->step.of.v = mf_on_gpu(d, g, s->step.of.v);
    s->step.of.ema = s->step.of.ema ? mf_on_gpu(d, g, s->step.of.ema) : NULL;
    s->step.of.step = (int64_t *)mf_on_gpu(d, g, (const float *)s->step.of.step);
    s->n = x->b->n;
}

/* ---- enqueueing ---- */

static int copy(const mf_program *p, const mf_gpu_part *q, void *to, const void *from, size_t bytes,
                cudaMemcpyKind kind, struct mf_err *err)
{
    return bytes ? mf_cuda_check(p->dev, q->gpu, cudaMemcpyAsync(to, from, bytes, kind, q->stream), "a transfer", err)
                 : 0;
}

static int send_rows(struct launching *x, mf_gpu_part *q, struct mf_err *err)
{
    const char *in = x->r->in;
    int rc =
        copy(x->p, q, q->in + x->index_at, in + x->index_at, x->in_bytes - x->index_at, cudaMemcpyHostToDevice, err);
    if (rc == 0 && x->job->step)
        rc = copy(x->p, q, q->step, (const mf_step_in *)(in + x->step_at) + q->gpu, sizeof(mf_step_in),
                  cudaMemcpyHostToDevice, err);
    return rc;
}

static mf_graph_key key_of(const struct launching *x)
{
    mf_graph_key k = {};
    for (const mf_fetch &f : x->r->fetch)
        k.fetched.push_back(f.value.id);
    if (x->veto_bytes)
        k.fetched.push_back(x->job->step->veto.id);
    k.step = x->job->step;
    return k;
}

/* On one GPU the end is part of the last wave's graph; several first exchange their lanes. */
static int run_waves(struct launching *x, mf_gpu_part *q, struct mf_err *err)
{
    mf_program *p = x->p;
    bool stale = p->weights != x->job->weights || p->sets != x->job->sets, alone = p->parts == 1;
    size_t count = x->waves ? x->waves : 1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const mf_wave *w = (const mf_wave *)(x->r->in + x->wave_at) + q->gpu * count + i;
        mf_graph_key k = key_of(x);
        k.wave = x->waves && q->lanes;
        k.first = i == 0;
        k.shared = stale && i == 0;
        k.fold = p->l->backward && !alone && i + 1 == count;
        k.end = p->l->backward && alone && i + 1 == count;
        k.step = k.step && k.end;
        k.room = mf_program_room_for(p, w->samples);
        rc = copy(p, q, q->wave, w, sizeof *w, cudaMemcpyHostToDevice, err);
        if (rc == 0)
            rc = mf_program_enqueue(p, q, &k, err);
    }
    return rc;
}

/* Of several GPUs, which have exchanged their lanes. */
static int run_end(struct launching *x, mf_gpu_part *q, struct mf_err *err)
{
    mf_graph_key k = key_of(x);
    k.end = true;
    return mf_program_enqueue(x->p, q, &k, err);
}

static int fetch_back(struct launching *x, mf_gpu_part *q, struct mf_err *err)
{
    char *to = x->r->out[q->gpu];
    int rc = copy(x->p, q, to, q->out, x->r->verdict_at, cudaMemcpyDeviceToHost, err);
    if (rc == 0 && x->job->step)
        rc = copy(x->p, q, to + x->r->verdict_at, q->verdict, sizeof(struct mf_verdict), cudaMemcpyDeviceToHost, err);
    return rc ? rc
              : mf_cuda_check(x->p->dev, q->gpu, cudaEventRecord(x->r->copied[q->gpu], q->stream), "an event", err);
}

/* The waves of all GPUs. */
static int begin(struct launching *x, struct mf_err *err)
{
    mf_program *p = x->p;
    int rc = make_room(x, err), gpus = p->dev->n_gpus;
    if (rc)
        return rc;
    fill_rows(x);
    for (int g = 0; g < gpus; g++) {
        fill_waves(x, g);
        fill_step(x, g);
    }
    for (int g = 0; rc == 0 && g < gpus; g++) {
        mf_gpu_part *q = &p->part[g];
        cudaSetDevice(p->dev->id[g]);
        if ((rc = send_rows(x, q, err)) == 0 && (rc = run_waves(x, q, err)) == 0)
            rc = mf_cuda_check(p->dev, g, cudaEventRecord(x->r->own[g], q->stream), "an event", err);
    }
    return rc;
}

int mf_cuda_start(struct mf_program *p, const struct mf_job *j, struct mf_err *err)
{
    struct launching x = {};
    if (p->started - p->finished >= MF_AHEAD)
        abort();
    if (j->batch->n_fetches >= MF_FETCHES)
        return mf_err_set(err, MF_EUSAGE, "device=cuda fetches %d values, not %d", MF_FETCHES - 1, j->batch->n_fetches);
    x.p = p;
    x.r = &p->running[p->started % MF_AHEAD];
    x.job = j;
    x.b = j->batch;
    x.per_wave = mf_program_wave(p);
    x.waves = (x.b->n + x.per_wave - 1) / x.per_wave;
    lay_out_in(&x);
    lay_out_out(&x);
    bool several = p->l->backward && p->parts > 1;
    int rc = begin(&x, err);
    if (several)
        rc = mf_program_exchange(p, x.b->n, x.veto_bytes, rc, err);
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        cudaSetDevice(p->dev->id[g]);
        if (several)
            rc = run_end(&x, &p->part[g], err);
        rc = rc ? rc : fetch_back(&x, &p->part[g], err);
    }
    if (rc) { /* the next run fills the same buffers */
        struct mf_err second;
        mf_program_fail(p);
        mf_program_wait(p, &second);
    }
    p->weights = rc || j->step ? UINT64_MAX : j->weights; /* a step changes them */
    p->sets = j->sets;
    p->started += rc == 0;
    return rc;
}

/* ---- the end ---- */

static void scatter(const mf_running *r, size_t i)
{
    const mf_fetch *f = &r->fetch[i];
    const float *from = (const float *)(r->out[0] + r->at[i]);
    for (size_t s = 0; s < r->n; s++)
        memcpy(f->base + s * f->stride, from + s * r->floats[i], r->floats[i] * sizeof(float));
}

static int wait_for(const mf_program *p, const cudaEvent_t *event, struct mf_err *err)
{
    int rc = 0;
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        cudaSetDevice(p->dev->id[g]);
        rc = mf_cuda_check(p->dev, g, cudaEventSynchronize(event[g]), "a run", err);
    }
    return rc;
}

/* With other ranks: once all GPUs have computed, what they exchange by NCCL has nothing else to wait for. A failure of
 * one is that of all. */
static int wait_together(const mf_program *p, const mf_running *r, struct mf_err *err)
{
    int (*const agree)(struct mf_ranks *, int, struct mf_err *) = p->l->verbs->agree;
    if (!p->dev->nccl)
        return agree(p->l->ranks, wait_for(p, r->copied, err), err);
    int rc = agree(p->l->ranks, wait_for(p, r->own, err), err);
    return rc ? rc : agree(p->l->ranks, mf_nccl_wait(p->dev->nccl, r->copied, err), err);
}

int mf_cuda_finish(struct mf_program *p, struct mf_err *err)
{
    mf_running *r = &p->running[p->finished++ % MF_AHEAD];
    int rc = p->ranks > 1 ? wait_together(p, r, err) : wait_for(p, r->copied, err);
    rc = rc ? rc : mf_program_join(p, r, err);
    for (size_t i = 0; rc == 0 && i < r->fetch.size(); i++)
        scatter(r, i);
    if (rc == 0 && r->verdict)
        memcpy(r->verdict, r->out[0] + r->verdict_at, sizeof *r->verdict);
    if (rc)
        mf_program_fail(p);
    return rc;
}
