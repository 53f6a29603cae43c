/* run.c - run a program over the tiles of a run. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "cpu/program.h"
#include "ranks/ranks.h"

enum {
    ALONE_MACS = 2000000, /* below this, some 50 us, waking another core does not pay */
    TEAM_MACS = 20000000, /* above this workers divide operations, where samples are fewer than half of them */
    FEW = 4,              /* samples of a worker, or fewer: see mf_program_together */
    FEW_LEAST = 3000000,  /* multiply-adds of such a worker: with fewer, meetings cost more than they bring .. */
    FEW_MOST = 10000000,  /* .. and with more, reading all weights costs little */
    TILE_LEAST = 8,       /* samples; smaller tiles spend their time on the traffic of weights and lanes */
};

/* May workers divide one operation among them? */
static bool divides(const struct mf_program *p)
{
    return p->dev->fast;
}

const float *mf_cpu_grads(struct mf_program *p)
{
    return p->sum;
}

int mf_cpu_set(struct mf_program *p, int value, const float *host, struct mf_err *err)
{
    const struct mf_value_at *v = &p->l->value[value];
    (void)err;
    memcpy(p->shared + v->data.at, host, sizeof(float) * mf_value_floats(v));
    return 0;
}

static void feed_tile(const struct mf_cpu_run *r, int w, size_t first, size_t n)
{
    const struct mf_program *p = r->p;
    const struct mf_batch *b = r->batch;
    for (int i = 0; i < b->n_feeds; i++) {
        const struct mf_feed *f = &b->feed[i];
        const struct mf_value_at *v = &p->l->value[f->input.id];
        size_t size = mf_value_floats(v);
        float *to = p->arena[w] + v->data.at;
        for (size_t s = first; s < first + n; s++, to += size)
            memcpy(to, f->base + (b->index && !f->direct ? b->index[s] : s) * f->stride, sizeof(float) * size);
    }
}

/* Fetched as soon as it is computed, since another value may use its place later in the run. */
static void fetch_value(const struct mf_cpu_run *r, int w, int value, size_t first, size_t n)
{
    const struct mf_program *p = r->p;
    const struct mf_value_at *v = &p->l->value[value];
    const float *from = (v->shared ? p->shared : p->arena[w]) + v->data.at;
    size_t size = mf_value_floats(v);
    for (int i = p->fetch_of[value]; i >= 0; i = p->next[i]) {
        const struct mf_fetch *f = mf_cpu_fetch(r, i);
        for (size_t s = 0; s < n; s++)
            memcpy(f->base + (first + s) * f->stride, from + (v->shared ? 0 : s * size), sizeof(float) * size);
    }
}

static void start_losses(const struct mf_cpu_run *r, int w, size_t n)
{
    const struct mf_listing *l = r->p->l;
    for (int i = 0; i < l->n_starts; i++)
        for (size_t s = 0; s < n && !l->start[i].shared; s++)
            r->p->arena[w][l->start[i].grad.at + s] = l->start[i].scale;
}

/* Shared values are computed once, and again when weights or shared inputs change. */
static void run_shared(struct mf_program *p, const struct mf_job *j)
{
    if (p->weights_of_shared == j->weights && p->sets_of_shared == j->sets)
        return;
    for (int i = 0; i < p->l->n_calls; i++)
        if (p->l->call[i].shared)
            mf_cpu_forward(&p->call[0][i], 1);
    p->weights_of_shared = j->weights;
    p->sets_of_shared = j->sets;
}

/* The loss of a shared value counts once per sample. */
static void run_shared_back(struct mf_program *p, size_t n)
{
    const struct mf_listing *l = p->l;
    for (int i = 0; i < l->n_starts; i++) {
        const struct mf_loss_start *x = &l->start[i];
        if (x->shared && x->grad.space == MF_IN_TAIL)
            p->sum[x->grad.at] += x->scale * (float)n;
        else if (x->shared)
            p->shared[x->grad.at] = x->scale * (float)n;
    }
    for (int i = l->n_calls - 1; i >= 0; i--)
        if (l->call[i].shared && l->call[i].back)
            mf_cpu_backward(&p->call[0][i], 1, p->sum);
}

/* Adds a tile's gradients of shared values to its lane. */
static void keep_tails(const struct mf_program *p, int w, bool fresh, float *lane)
{
    for (int i = 0; i < p->l->n_tails; i++) {
        const struct mf_tail *t = &p->l->tail[i];
        const float *from = p->arena[w] + t->grad.at;
        float *to = lane + t->at;
        for (size_t j = 0; j < t->floats; j++)
            to[j] = (fresh ? 0.0f : to[j]) + from[j];
    }
}

/* In a lane's first tile, the lane holds the gradients of the run before: the first call that adds to a parameter sets
 * all of its gradient, or finds zeros. */
static void begin(const struct mf_program *p, int w, int i, bool fresh, float *lane)
{
    const struct mf_listed *l = &p->l->call[i];
    struct mf_call *c = &p->call[w][i].call;
    c->sets = fresh && l->first_W && l->op->sets && l->op->sets(c);
    if (fresh && l->first_W && !c->sets)
        memset(lane + l->dW, 0, sizeof(float) * l->W_floats);
    if (fresh && l->first_b)
        memset(lane + l->db, 0, sizeof(float) * l->b_floats);
}

static void run_tile(const struct mf_cpu_run *r, int w, size_t tile, float *lane)
{
    struct mf_program *p = r->p;
    const struct mf_listing *l = p->l;
    bool fresh = tile < (size_t)l->lanes;
    size_t first = tile * r->tile, n = mf_smaller(r->batch->n - first, r->tile);
    feed_tile(r, w, first, n);
    for (int v = 1; v < l->n_values; v++)
        if (l->value[v].input && p->fetch_of[v] >= 0)
            fetch_value(r, w, v, first, n);
    for (int i = 0; i < l->n_calls; i++) {
        if (!l->call[i].shared)
            mf_cpu_call_forward(p, w, i, (int)n);
        if (p->fetch_of[l->call[i].value] >= 0)
            fetch_value(r, w, l->call[i].value, first, n);
    }
    if (!lane)
        return;
    start_losses(r, w, n);
    for (int i = l->n_calls - 1; i >= 0; i--)
        if (l->call[i].back && !l->call[i].shared) {
            begin(p, w, i, fresh, lane);
            mf_cpu_backward(&p->call[w][i], (int)n, lane);
        }
    keep_tails(p, w, fresh, lane);
}

/* Tiles in any order: rows are independent, and there are no sums over samples. */
static void work_any(void *arg, int w)
{
    struct mf_cpu_run *r = arg;
    for (size_t i; (i = atomic_fetch_add(&r->any, 1)) < r->tiles;)
        run_tile(r, w, i, NULL);
}

/* One tile after another, each divided among all workers. */
static void work_together(void *arg, int w)
{
    struct mf_cpu_run *r = arg;
    if (w == 0) {
        for (size_t i = 0; i < r->tiles; i++)
            run_tile(r, 0, i, NULL);
        mf_crew_end(&r->p->crew);
    }
    mf_crew_help(&r->p->crew, w);
}

static void run_forward(struct mf_cpu_run *r)
{
    struct mf_workers *workers = r->p->dev->workers;
    if (mf_program_together(r->p, r->batch->n)) {
        mf_crew_start(&r->p->crew, mf_workers_count(workers), 1);
        mf_workers_run(workers, work_together, r);
    } else if (r->p->macs * (double)r->batch->n < ALONE_MACS || r->tiles == 1)
        work_any(r, 0);
    else
        mf_workers_run(workers, work_any, r);
}

/* The free lane whose next tile is the earliest; -1: none has one. */
static int take_lane(struct mf_cpu_run *r)
{
    int best = -1;
    pthread_mutex_lock(&r->lock);
    for (int i = r->first_lane; i < r->end_lane; i++)
        if (!r->taken[i] && r->next[i] < r->tiles && (best < 0 || r->next[i] < r->next[best]))
            best = i;
    if (best >= 0)
        r->taken[best] = true;
    pthread_mutex_unlock(&r->lock);
    return best;
}

static void give_lane(struct mf_cpu_run *r, int lane)
{
    pthread_mutex_lock(&r->lock);
    r->next[lane] += (size_t)r->p->l->lanes;
    r->taken[lane] = false;
    pthread_mutex_unlock(&r->lock);
}

/* The tiles of a lane run in order, one at a time, so that the order of a sum is fixed. A worker that finds no free
 * lane with a tile left helps the others. */
static void work_lanes(void *arg, int w)
{
    struct mf_cpu_run *r = arg;
    for (int lane; (lane = take_lane(r)) >= 0; give_lane(r, lane))
        run_tile(r, w, r->next[lane], r->p->lanes + (size_t)lane * r->p->lane);
    if (!divides(r->p))
        return;
    mf_crew_end(&r->p->crew);
    mf_crew_help(&r->p->crew, w);
}

static void pack_one(void *arg, int i)
{
    struct mf_program *p = arg;
    struct mf_weights_use *u = &p->packs[i];
    const float *W = u->copy >= 0 ? p->copy_room + p->copies[u->copy].at : p->l->weights + u->W;
    if (!u->pack.bf16)
        p->dev->products->pack(&u->pack, W + u->c.from, u->ldw, u->c.transposed);
}

/* Training: a tile for every lane, where tiles are then large enough, and all of about one size, so that workers finish
 * together. Gradients depend on it, so it does not depend on the number of threads. */
static size_t training_tile(const struct mf_program *p, size_t n)
{
    size_t lanes = (size_t)p->l->lanes, share = (n + lanes - 1) / lanes, most = (size_t)p->l->samples;
    size_t tile = mf_smaller(share > TILE_LEAST ? share : TILE_LEAST, most), tiles = (n + tile - 1) / tile;
    return p->l->exact ? most : n ? (n + tiles - 1) / tiles : 1;
}

/* Where samples are few, a worker that takes its own reads all weights for some rows, and mostly from beyond its second
 * cache. Where workers divide operations, each reads its part of the weights, which stays in that cache.
 */
bool mf_program_together(const struct mf_program *p, size_t n)
{
    size_t workers = (size_t)mf_workers_count(p->dev->workers);
    double macs = p->macs * (double)n, each = macs / (double)workers;
    if (p->l->backward || !divides(p))
        return false;
    return 2 * n <= workers ? macs >= TEAM_MACS
                            : n > workers && n <= FEW * workers && each >= FEW_LEAST && each < FEW_MOST;
}

/* Inference: rows are independent, so that threads share the samples evenly. */
static size_t inference_tile(const struct mf_program *p, size_t n)
{
    if (mf_program_together(p, n))
        return mf_smaller(n, (size_t)p->l->samples);
    size_t threads = (size_t)mf_workers_count(p->dev->workers), share = (n + threads - 1) / threads;
    return share ? mf_smaller(share, (size_t)p->l->samples) : 1;
}

size_t mf_program_tile(const struct mf_program *p, size_t n)
{
    return p->l->backward ? training_tile(p, n) : inference_tile(p, n);
}

static void note_fetch(struct mf_program *p, int i, int value)
{
    int *of = &p->fetch_of[p->l->value[value].root];
    p->next[i] = *of;
    *of = i;
}

/* Lists the fetches of each value; the step fetches the values of the veto. */
static int note_fetches(struct mf_cpu_run *r, struct mf_err *err)
{
    struct mf_program *p = r->p;
    const struct mf_batch *b = r->batch;
    bool veto = r->step && r->step->veto.id;
    if (b->n_fetches + 1 > p->n_next)
        p->next = mf_xrealloc(p->next, (size_t)(p->n_next = b->n_fetches + 1), sizeof *p->next);
    for (int v = 0; v < p->l->n_values; v++)
        p->fetch_of[v] = -1;
    for (int i = 0; i < b->n_fetches; i++)
        note_fetch(p, i, b->fetch[i].value.id);
    if (!veto)
        return 0;
    if (b->n > p->n_veto) {
        free(p->veto);
        p->veto = NULL;
        p->n_veto = 0;
        int rc = mf_alloc((void **)&p->veto, b->n * sizeof *p->veto, "a minibatch's divergences", err);
        if (rc)
            return rc;
        p->n_veto = b->n;
    }
    r->veto = (struct mf_fetch){r->step->veto, p->veto, 1};
    note_fetch(p, b->n_fetches, r->step->veto.id);
    return 0;
}

static int run_back(struct mf_cpu_run *r, struct mf_err *err)
{
    struct mf_program *p = r->p;
    pthread_mutex_init(&r->lock, NULL);
    for (int i = 0; i < p->l->lanes; i++)
        r->next[i] = (size_t)i;
    mf_workers_run(p->dev->workers, work_lanes, r);
    pthread_mutex_destroy(&r->lock);
    int rc = mf_cpu_sum(r, err);
    mf_crew_start(&p->crew, 1, 1); /* no helpers from here on */
    if (rc == 0)
        run_shared_back(p, r->batch->n);
    return rc;
}

int mf_cpu_start(struct mf_program *p, const struct mf_job *j, struct mf_err *err)
{
    const int me = mf_ranks_me(p->l->ranks);
    struct mf_cpu_run r = {.p = p,
                           .batch = j->batch,
                           .step = j->step,
                           .first_lane = mf_cpu_first_lane(p, me),
                           .end_lane = mf_cpu_first_lane(p, me + 1)};
    int T = mf_workers_count(p->dev->workers), rc = note_fetches(&r, err);
    if (rc)
        return rc;
    if (p->packed != j->weights) {
        mf_workers_each(p->dev->workers, p->n_packs, pack_one, p);
        p->packed = j->weights;
    }
    mf_crew_start(&p->crew, T, T);
    run_shared(p, j);
    r.tile = mf_program_tile(p, r.batch->n);
    r.tiles = (r.batch->n + r.tile - 1) / r.tile;
    if (!p->l->backward)
        run_forward(&r);
    else if ((rc = run_back(&r, err)))
        return rc;
    return j->step ? mf_cpu_step(p, j, err) : 0;
}

int mf_cpu_finish(struct mf_program *p, struct mf_err *err)
{
    (void)p, (void)err;
    return 0;
}
