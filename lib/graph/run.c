/* run.c - replay a plan over the tiles of a run. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/plan_priv.h"

enum {
    ALONE_MACS = 2000000, /* below this, some 50 us, a run is over before another core is awake for long */
    TEAM_MACS = 20000000, /* above this workers divide operations, where samples are too few for them */
    TILE_LEAST = 8,       /* samples; below this a tile costs more in weights and lanes than it brings */
    LARGE = 1 << 16,      /* floats of a result that is cut finer than workers: one core may be slower than another */
};

struct run {
    struct mf_plan *p;
    size_t n, tile, tiles;
    const uint32_t *index;
    const struct mf_feed *feeds;
    int n_feeds;
    const struct mf_fetch *fetches;
    pthread_mutex_t lock;
    size_t next[MF_LANES_MAX]; /* by lane: its next tile */
    bool taken[MF_LANES_MAX];
    atomic_size_t any; /* the next tile where order does not matter */
};

/* May workers make one operation together? */
static bool divides(const struct mf_plan *p)
{
    return p->e->dev.fast;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void mf_plan_set(struct mf_plan *p, struct mf_val shared, const float *data)
{
    const struct mf_value *v = &p->g->value[shared.id];
    if (!v->shared || v->node >= 0)
        abort();
    float *to = p->shared + p->data[v->root].at;
    size_t size = sizeof(float) * (size_t)v->rows * (size_t)v->cols;
    if (p->is_set[v->root] && memcmp(to, data, size) == 0)
        return;
    memcpy(to, data, size);
    p->is_set[v->root] = true;
    p->shared_of = UINT64_MAX;
}

float *mf_plan_grads(struct mf_plan *p)
{
    return p->grads;
}

static void feed_tile(const struct run *r, int w, size_t first, size_t n)
{
    const struct mf_plan *p = r->p;
    for (int i = 0; i < r->n_feeds; i++) {
        const struct mf_feed *f = &r->feeds[i];
        const struct mf_value *v = &p->g->value[f->input.id];
        size_t size = (size_t)v->rows * (size_t)v->cols;
        float *to = p->arena[w] + p->data[v->root].at;
        for (size_t s = first; s < first + n; s++, to += size)
            memcpy(to, f->base + (r->index && !f->direct ? r->index[s] : s) * f->stride, sizeof(float) * size);
    }
}

/* A value's place may be another's later in the run, so it is fetched as soon as it is there. */
static void fetch_value(const struct run *r, int w, int value, size_t first, size_t n)
{
    const struct mf_plan *p = r->p;
    for (int i = p->fetch_of[value]; i >= 0; i = p->fetch_next[i]) {
        const struct mf_fetch *f = &r->fetches[i];
        const struct mf_value *v = &p->g->value[value];
        size_t size = (size_t)v->rows * (size_t)v->cols;
        const float *from = (v->shared ? p->shared : p->arena[w]) + p->data[value].at;
        for (size_t s = 0; s < n; s++)
            memcpy(f->base + (first + s) * f->stride, from + (v->shared ? 0 : s * size), sizeof(float) * size);
    }
}

static void start_losses(const struct run *r, int w, size_t n)
{
    const struct mf_plan *p = r->p;
    for (int v = 1; v < p->g->n_values; v++) {
        const struct mf_value *x = &p->g->value[v];
        for (size_t s = 0; s < n && p->wanted[v] && !x->shared && x->scale != 0.0f; s++)
            p->arena[w][p->grad[v].at + s] = x->scale;
    }
}

/* What follows from parameters and shared inputs alone is computed once, and again when they change. */
static void run_shared(struct mf_plan *p)
{
    const struct mf_graph *g = p->g;
    if (p->shared_of == p->params->version)
        return;
    for (int i = 0; i < g->n_nodes; i++)
        if (mf_node_shared(g, i))
            mf_cpu_forward(&p->call[0][i], 1);
    p->shared_of = p->params->version;
}

/* A shared loss is every sample's. */
static void run_shared_back(struct mf_plan *p, size_t n)
{
    const struct mf_graph *g = p->g;
    for (int v = 1; v < g->n_values; v++) {
        const struct mf_value *x = &g->value[v];
        if (!x->shared || !p->wanted[v] || x->scale == 0.0f)
            continue;
        if (p->tail[v] >= 0)
            p->grads[p->tail[v]] += x->scale * (float)n;
        else
            p->shared[p->grad[v].at] = x->scale * (float)n;
    }
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (mf_node_shared(g, i) && mf_runs_back(p, i))
            mf_cpu_backward(&p->call[0][i], 1, p->grads);
}

/* What a tile adds to the gradients of shared values. */
static void keep_tails(const struct mf_plan *p, int w, bool fresh, float *lane)
{
    for (int v = 1; v < p->g->n_values; v++) {
        if (p->tail[v] < 0)
            continue;
        const float *from = p->arena[w] + p->grad[v].at;
        float *to = lane + p->tail[v];
        size_t size = (size_t)p->g->value[v].rows * (size_t)p->g->value[v].cols;
        for (size_t j = 0; j < size; j++)
            to[j] = (fresh ? 0.0f : to[j]) + from[j];
    }
}

static void zero(const struct mf_plan *p, int param, float *lane)
{
    const struct mf_param *q = &p->params->p[param];
    memset(lane + q->at, 0, sizeof(float) * (size_t)q->rows * (size_t)q->cols);
}

/* A lane's first tile finds what the run before left: who reaches a parameter first sets all of it, or finds zeros. */
static void begin(const struct mf_plan *p, int w, int node, bool fresh, float *lane)
{
    const struct mf_node *nd = &p->g->node[node];
    struct mf_call *c = &p->call[w][node].call;
    struct mf_first first = p->first[node];
    c->sets = fresh && first.W && nd->op->sets && nd->op->sets(c);
    if (fresh && first.W && !c->sets)
        zero(p, nd->W, lane);
    if (fresh && first.b)
        zero(p, nd->b, lane);
}

struct share {
    const struct mf_plan *p;
    int node, n;
    const struct mf_cpu_call *call;
};

static void forward_part(void *arg, int part, int parts, int w)
{
    const struct share *s = arg;
    struct mf_cpu_call mine = *s->call;
    mine.part = part;
    mine.parts = parts;
    mine.call.work = s->p->call[w][s->node].call.work;
    mf_cpu_forward(&mine, s->n);
}

static void forward(struct mf_plan *p, int w, int node, int n)
{
    const struct mf_cpu_call *c = &p->call[w][node];
    struct share s = {p, node, n, c};
    if (c->fast && c->fast->divides && mf_crew_helps(&p->crew))
        mf_crew_share(&p->crew, w, mf_tile_rows(&c->call.y, n) * c->call.y.cols >= LARGE ? 4 : 1, forward_part, &s);
    else
        mf_cpu_forward(c, n);
}

static void run_tile(const struct run *r, int w, size_t tile, float *lane)
{
    struct mf_plan *p = r->p;
    const struct mf_graph *g = p->g;
    size_t first = tile * r->tile, n = least(r->n - first, r->tile);
    feed_tile(r, w, first, n);
    for (int v = 1; v < g->n_values; v++)
        if (g->value[v].node < 0 && p->fetch_of[v] >= 0)
            fetch_value(r, w, v, first, n);
    for (int i = 0; i < g->n_nodes; i++) {
        if (!mf_node_shared(g, i))
            forward(p, w, i, (int)n);
        if (p->fetch_of[g->node[i].y] >= 0)
            fetch_value(r, w, g->node[i].y, first, n);
    }
    if (!lane)
        return;
    start_losses(r, w, n);
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (mf_runs_back(p, i) && !mf_node_shared(g, i)) {
            begin(p, w, i, tile < (size_t)p->lanes, lane);
            mf_cpu_backward(&p->call[w][i], (int)n, lane);
        }
    keep_tails(p, w, tile < (size_t)p->lanes, lane);
}

/* Tiles in any order: rows are independent, and nothing is summed. */
static void work_any(void *arg, int w)
{
    struct run *r = arg;
    for (size_t i; (i = atomic_fetch_add(&r->any, 1)) < r->tiles;)
        run_tile(r, w, i, NULL);
}

/* Tile after tile by all workers together. */
static void work_together(void *arg, int w)
{
    struct run *r = arg;
    if (w == 0) {
        for (size_t i = 0; i < r->tiles; i++)
            run_tile(r, 0, i, NULL);
        mf_crew_end(&r->p->crew);
    }
    mf_crew_help(&r->p->crew, w);
}

static void run_forward(struct run *r)
{
    struct mf_workers *workers = r->p->e->workers;
    if (mf_plan_together(r->p, r->n)) {
        mf_crew_start(&r->p->crew, mf_workers_count(workers), 1);
        mf_workers_run(workers, work_together, r);
    } else if (r->p->macs * (double)r->n < ALONE_MACS || r->tiles == 1)
        work_any(r, 0);
    else
        mf_workers_run(workers, work_any, r);
}

/* The free lane whose next tile is the earliest; -1: none has one. */
static int take_lane(struct run *r)
{
    int best = -1;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->p->lanes; i++)
        if (!r->taken[i] && r->next[i] < r->tiles && (best < 0 || r->next[i] < r->next[best]))
            best = i;
    if (best >= 0)
        r->taken[best] = true;
    pthread_mutex_unlock(&r->lock);
    return best;
}

static void give_lane(struct run *r, int lane)
{
    pthread_mutex_lock(&r->lock);
    r->next[lane] += (size_t)r->p->lanes;
    r->taken[lane] = false;
    pthread_mutex_unlock(&r->lock);
}

/* A lane's tiles come in order, one at a time, so that a sum has one order; when every lane with tiles left is
 * taken, their takers end them, and who has none helps. */
static void work_lanes(void *arg, int w)
{
    struct run *r = arg;
    for (int lane; (lane = take_lane(r)) >= 0; give_lane(r, lane))
        run_tile(r, w, r->next[lane], r->p->lane + (size_t)lane * r->p->lane_size);
    if (!divides(r->p))
        return;
    mf_crew_end(&r->p->crew);
    mf_crew_help(&r->p->crew, w);
}

/* grads = lane 0 + lane 1 + .., in strips: memory reads the lanes side by side. */
static void sum_slice(void *arg, int i)
{
    struct run *r = arg;
    const struct mf_plan *p = r->p;
    size_t used = p->reached[i] ? least(r->tiles, (size_t)p->lanes) : 0;
    size_t end = least((size_t)(i + 1) * MF_SLICE, p->lane_size);
    for (size_t at = (size_t)i * MF_SLICE; at < end; at += MF_STRIP) {
        float sum[MF_STRIP] = {0};
        for (size_t l = 0; l < used; l++)
            for (size_t j = 0; j < MF_STRIP; j++)
                sum[j] += p->lane[l * p->lane_size + at + j];
        memcpy(p->grads + at, sum, sizeof sum);
    }
}

static void pack_one(void *arg, int i)
{
    struct mf_plan *p = arg;
    struct mf_weights_use *u = &p->packs[i];
    const struct mf_param *w = &p->params->p[u->W];
    p->e->dev.products->pack(&u->pack, p->params->value + w->at + u->c.from, w->cols, u->c.transposed);
}

static int check(struct mf_plan *p, const struct run *r, int n_fetches, struct mf_err *err)
{
    int inputs = 0;
    for (int v = 1; v < p->g->n_values; v++) {
        const struct mf_value *x = &p->g->value[v];
        p->fetch_of[v] = -1;
        if (x->node >= 0 || x->root != v)
            continue;
        inputs += !x->shared;
        if (x->shared && !p->is_set[v])
            return mf_err_set(err, MF_EUSAGE, "shared input %d (%d, %d) of a plan was never set", v, x->rows, x->cols);
    }
    if (r->n_feeds != inputs)
        return mf_err_set(err, MF_EUSAGE, "a plan with %d inputs was fed %d", inputs, r->n_feeds);
    if (n_fetches > p->n_fetch_next) {
        p->fetch_next = mf_xrealloc(p->fetch_next, (size_t)n_fetches, sizeof *p->fetch_next);
        p->n_fetch_next = n_fetches;
    }
    for (int i = 0; i < n_fetches; i++) {
        int value = r->fetches[i].value.id, root = p->g->value[value].root, *of = &p->fetch_of[root];
        if (p->heads[root] > 1)
            return mf_err_set(err, MF_EUSAGE, "value %d lies head by head: fetch what reads it", value);
        p->fetch_next[i] = *of;
        *of = i;
    }
    return 0;
}

/* Training: a tile for every lane where that leaves tiles of some size, all about as large, so that workers end
 * together; the number of threads may not matter. */
static size_t training_tile(const struct mf_plan *p, size_t n)
{
    size_t lanes = (size_t)p->lanes, share = (n + lanes - 1) / lanes, most = (size_t)p->tile;
    size_t tile = least(share > TILE_LEAST ? share : TILE_LEAST, most), tiles = (n + tile - 1) / tile;
    return p->tile_given ? most : n ? (n + tiles - 1) / tiles : 1;
}

bool mf_plan_together(const struct mf_plan *p, size_t n)
{
    return !p->backward && divides(p) && p->macs * (double)n >= TEAM_MACS &&
           2 * n <= (size_t)mf_workers_count(p->e->workers);
}

/* Inference: rows are independent, so all threads share what there is. */
static size_t inference_tile(const struct mf_plan *p, size_t n)
{
    if (mf_plan_together(p, n))
        return least(n, (size_t)p->tile);
    size_t threads = (size_t)mf_workers_count(p->e->workers), share = (n + threads - 1) / threads;
    return share ? least(share, (size_t)p->tile) : 1;
}

size_t mf_plan_tile(const struct mf_plan *p, size_t n)
{
    return p->backward ? training_tile(p, n) : inference_tile(p, n);
}

int mf_plan_run(struct mf_plan *p, size_t n, const uint32_t *index, const struct mf_feed *feeds, int n_feeds,
                const struct mf_fetch *fetches, int n_fetches, struct mf_err *err)
{
    struct run r = {.p = p, .n = n, .index = index, .feeds = feeds, .n_feeds = n_feeds, .fetches = fetches};
    int rc = p->outline ? mf_err_set(err, MF_EUSAGE, "a plan of parameters without values cannot run")
                        : check(p, &r, n_fetches, err);
    if (rc)
        return rc;
    if (p->packed != p->params->version) {
        mf_workers_each(p->e->workers, p->n_packs, pack_one, p);
        p->packed = p->params->version;
    }
    mf_crew_start(&p->crew, mf_workers_count(p->e->workers), mf_workers_count(p->e->workers));
    run_shared(p);
    r.tile = mf_plan_tile(p, n);
    r.tiles = (n + r.tile - 1) / r.tile;
    if (!p->backward) {
        run_forward(&r);
        return 0;
    }
    pthread_mutex_init(&r.lock, NULL);
    for (int i = 0; i < p->lanes; i++)
        r.next[i] = (size_t)i;
    mf_workers_run(p->e->workers, work_lanes, &r);
    pthread_mutex_destroy(&r.lock);
    mf_workers_each(p->e->workers, (int)((p->lane_size + MF_SLICE - 1) / MF_SLICE), sum_slice, &r);
    mf_crew_start(&p->crew, 1, 1); /* the helpers have gone */
    run_shared_back(p, n);
    return 0;
}
