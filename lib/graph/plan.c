/* plan.c - compile a graph into calls, packs and memory. */
#include "graph/plan_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

enum {
    TILE_MAX = 64,
    TILE_FLOATS = 5 << 18, /* of a worker: large tiles share the traffic of weights and lanes, which is what costs */
    LANES = 8,
    LANES_BIG = 2,
    BIG = 16 << 20, /* floats of parameters above which lanes are few */
};

float *mf_big_alloc(size_t floats, const char *what, struct mf_err *err)
{
    size_t size = floats ? floats * sizeof(float) : 1;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for %s", size, what);
        return NULL;
    }
    madvise(p, size, MADV_HUGEPAGE);
    return p;
}

void mf_big_free(float *p, size_t floats)
{
    if (p)
        munmap(p, floats ? floats * sizeof(float) : 1);
}

static int root(const struct mf_graph *g, int value)
{
    return g->value[value].root;
}

static void choose_tile(struct mf_plan *p, const struct mf_plan_opts *opts)
{
    size_t one = mf_plan_place(p, 1), fit = TILE_FLOATS / (one ? one : 1);
    p->tile = opts->tile > 0 ? opts->tile : fit < 1 ? 1 : fit > TILE_MAX ? TILE_MAX : (int)fit;
    p->lanes = opts->lanes > 0 ? opts->lanes : p->params->size > BIG ? LANES_BIG : LANES;
    p->arena_size = mf_plan_place(p, p->tile);
}

static int pack_of(struct mf_plan *p, int W, struct mf_packing c)
{
    for (int i = 0; i < p->n_packs; i++) {
        const struct mf_weights_use *u = &p->packs[i];
        if (u->W == W && u->c.from == c.from && u->c.n == c.n && u->c.transposed == c.transposed)
            return i;
    }
    p->packs = mf_xrealloc(p->packs, (size_t)p->n_packs + 1, sizeof *p->packs);
    int rows = p->params->p[W].rows;
    p->packs[p->n_packs] = (struct mf_weights_use){
        .W = W,
        .c = c,
        .at = p->pack_size,
        .pack = {.K = c.transposed ? rows : c.n, .N = c.transposed ? c.n : rows},
    };
    const struct mf_pack *pack = &p->packs[p->n_packs].pack;
    p->pack_size += (p->e->dev.products->pack_floats(pack->K, pack->N) + 15) / 16 * 16;
    return p->n_packs++;
}

/* Tiles gather the gradient of what is shared where they work, and it lies in the tail of grads when all have ended. */
static float *gradient(const struct mf_plan *p, int w, int root, bool to_shared)
{
    if (!to_shared)
        return p->arena[w] + p->grad[root].at;
    return p->tail[root] >= 0 ? p->grads + p->tail[root] : p->shared + p->grad[root].at;
}

/* As a node reads or writes it; to_shared: the node is. */
static struct mf_tensor tensor(const struct mf_plan *p, int w, int value, bool grad, bool to_shared)
{
    const struct mf_value *v = &p->g->value[value];
    return (struct mf_tensor){
        .data = (v->shared ? p->shared : p->arena[w]) + p->data[v->root].at,
        .grad = grad && p->wanted[v->root] ? gradient(p, w, v->root, to_shared) : NULL,
        .rows = v->rows,
        .cols = v->cols,
        .heads = p->heads[value],
        .shared = v->shared,
    };
}

static struct mf_cpu_call cpu_call(const struct mf_plan *p, int i)
{
    const struct mf_op *op = p->g->node[i].op;
    return (struct mf_cpu_call){
        .op = op, .fast = mf_fast_find(p->e->dev.fast, op->name), .products = p->e->dev.products};
}

static void make_call(struct mf_plan *p, int w, int i, struct mf_tensor *operands, const int pack[2])
{
    const struct mf_graph *g = p->g;
    const struct mf_node *nd = &g->node[i];
    struct mf_cpu_call *of = &p->call[w][i];
    struct mf_call *c = &of->call;
    bool shared = mf_node_shared(g, i);
    *of = cpu_call(p, i);
    of->crew = &p->crew;
    of->worker = w;
    of->pack = pack[0] < 0 ? NULL : &p->packs[pack[0]].pack;
    of->pack_back = pack[1] < 0 ? NULL : &p->packs[pack[1]].pack;
    c->how = nd->how;
    c->y = tensor(p, w, nd->y, true, shared);
    c->n_x = nd->n_x;
    c->x = operands;
    c->dW = c->db = -1;
    c->work = p->arena[w] + p->arena_size;
    if (nd->keep && mf_runs_back(p, i))
        c->aux = (shared ? p->shared : p->arena[w]) + p->aux[i].at;
    for (int k = 0; k < nd->n_x; k++)
        c->x[k] = tensor(p, w, nd->x[k], mf_flows(g, nd, k) && mf_runs_back(p, i), shared);
    if (nd->W < 0)
        return;
    c->W = p->params->value + p->params->p[nd->W].at;
    c->ldw = p->params->p[nd->W].cols;
    c->b = nd->b < 0 ? NULL : p->params->value + p->params->p[nd->b].at;
    c->dW = mf_trained(g, nd->W) ? (ptrdiff_t)p->params->p[nd->W].at : -1;
    c->db = mf_trained(g, nd->b) ? (ptrdiff_t)p->params->p[nd->b].at : -1;
}

/* The first that writes a gradient sets it, in the order of the run, a node's last operand first; who comes later adds.
 * Shared nodes come after all tiles. */
static void mark_adds(struct mf_plan *p, int w)
{
    const struct mf_graph *g = p->g;
    bool *written = mf_xcalloc((size_t)g->n_values, sizeof *written);
    for (int v = 1; v < g->n_values; v++)
        written[v] = g->value[v].scale != 0.0f && p->tail[v] < 0;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = g->node[i].n_x - 1; k >= 0; k--)
            if (p->call[w][i].call.x[k].grad) {
                int x = root(g, g->node[i].x[k]);
                bool summed = mf_node_shared(g, i) && p->tail[x] >= 0; /* by the lanes */
                p->call[w][i].call.x[k].add = written[x] || summed;
                written[x] = written[x] || !summed;
            }
    free(written);
}

/* Tiles write the gradient of a parameter; true: nobody did before. */
static bool mark_first(struct mf_plan *p, int param, bool *seen)
{
    if (!mf_trained(p->g, param) || seen[param])
        return false;
    const struct mf_param *q = &p->params->p[param];
    size_t end = q->at + (size_t)q->rows * (size_t)q->cols;
    for (size_t at = q->at / MF_SLICE; at * MF_SLICE < end; at++)
        p->reached[at] = true;
    return seen[param] = true;
}

/* In the order of a run backward. Of what shared nodes alone reach, lanes hold nothing. */
static void mark_firsts(struct mf_plan *p)
{
    bool *seen = mf_xcalloc((size_t)p->params->n, sizeof *seen);
    p->reached = mf_xcalloc(p->lane_size / MF_SLICE + 1, sizeof *p->reached);
    for (size_t i = p->params->size / MF_SLICE; i <= p->lane_size / MF_SLICE; i++)
        p->reached[i] = true; /* the tails */
    for (int i = p->g->n_nodes - 1; i >= 0; i--)
        if (mf_runs_back(p, i) && !mf_node_shared(p->g, i)) {
            bool W = mark_first(p, p->g->node[i].W, seen), b = mark_first(p, p->g->node[i].b, seen);
            p->first[i] = (struct mf_first){W, b};
        }
    free(seen);
}

static void find_packs(struct mf_plan *p, int (*pack)[2])
{
    for (int i = 0; i < p->g->n_nodes; i++) {
        const struct mf_node *nd = &p->g->node[i];
        const struct mf_fast *fast = cpu_call(p, i).fast;
        struct mf_call c = mf_node_shapes(p->g, i);
        struct mf_packing want[2];
        pack[i][0] = pack[i][1] = -1;
        p->macs += nd->op->macs ? nd->op->macs(&c) : 0.0;
        if (fast && fast->packs) {
            fast->packs(&c, want);
            pack[i][0] = pack_of(p, nd->W, want[0]);
            if (mf_runs_back(p, i) && mf_flows(p->g, nd, 0) && p->wanted[root(p->g, nd->x[0])])
                pack[i][1] = pack_of(p, nd->W, want[1]);
        }
        free(c.x);
    }
}

/* All in one piece: small pages cost a product some percent. */
static int make_packs(struct mf_plan *p, struct mf_err *err)
{
    for (int i = 0; i < p->n_packs; i++)
        if (p->packs[i].pack.K > p->e->dev.products->most_inputs)
            return mf_err_set(err, MF_EUSAGE, "precision=bf16 multiplies rows of at most %d numbers, not %d; take fp32",
                              p->e->dev.products->most_inputs, p->packs[i].pack.K);
    if (!(p->pack_room = mf_big_alloc(p->pack_size, "packed weights", err)))
        return err->code;
    for (int i = 0; i < p->n_packs; i++)
        p->packs[i].pack.data = p->pack_room + p->packs[i].at;
    return 0;
}

static size_t count_operands(const struct mf_graph *g)
{
    size_t n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += (size_t)g->node[i].n_x;
    return n;
}

static void make_calls(struct mf_plan *p, int w, int (*pack)[2])
{
    struct mf_tensor *operands = p->operands[w];
    for (int i = 0; i < p->g->n_nodes; i++) {
        make_call(p, w, i, operands, pack[i]);
        operands += p->g->node[i].n_x;
    }
    mark_adds(p, w);
}

/* Shapes alone tell the scratch: asked of calls that have no arena yet. */
static size_t find_work(const struct mf_plan *p, int tile)
{
    size_t most = 0;
    for (int i = 0; i < p->g->n_nodes; i++) {
        struct mf_cpu_call c = cpu_call(p, i);
        c.call = mf_node_shapes(p->g, i);
        size_t size = mf_cpu_work(&c, tile, mf_runs_back(p, i));
        most = size > most ? size : most;
        free(c.call.x);
    }
    return most;
}

static int allocate(struct mf_plan *p, struct mf_err *err)
{
    int T = mf_workers_count(p->e->workers);
    if (!(p->shared = mf_big_alloc(p->shared_size, "shared values", err)))
        return err->code;
    p->work_size = find_work(p, p->tile);
    if (p->outline)
        return 0;
    for (int w = 0; w < T; w++) {
        p->call[w] = mf_xcalloc((size_t)p->g->n_nodes, sizeof *p->call[w]);
        p->operands[w] = mf_xcalloc(count_operands(p->g), sizeof *p->operands[w]);
        if (!(p->arena[w] = mf_big_alloc(p->arena_size + p->work_size, "a worker's arena", err)))
            return err->code;
    }
    if (p->backward && (!(p->lane = mf_big_alloc((size_t)p->lanes * p->lane_size, "gradient lanes", err)) ||
                        !(p->grads = mf_big_alloc(p->lane_size, "gradients", err))))
        return err->code;
    return 0;
}

int mf_plan_new(struct mf_plan **out, struct mf_engine *e, struct mf_graph *g, const struct mf_plan_opts *opts,
                struct mf_err *err)
{
    size_t values = (size_t)g->n_values, nodes = (size_t)g->n_nodes, T = (size_t)mf_workers_count(e->workers);
    if (opts->lanes > MF_LANES_MAX)
        return mf_err_set(err, MF_EUSAGE, "a plan has at most %d lanes, not %d", MF_LANES_MAX, opts->lanes);
    struct mf_plan *p = mf_xcalloc(1, sizeof *p);
    *p = (struct mf_plan){.e = e,
                          .g = g,
                          .params = g->params,
                          .outline = !g->params->value,
                          .backward = opts->backward,
                          .tile_given = opts->tile > 0,
                          .packed = UINT64_MAX,
                          .shared_of = UINT64_MAX};
    p->data = mf_xcalloc(values, sizeof *p->data);
    p->grad = mf_xcalloc(values, sizeof *p->grad);
    p->wanted = mf_xcalloc(values, sizeof *p->wanted);
    p->heads = mf_xcalloc(values, sizeof *p->heads);
    p->is_set = mf_xcalloc(values, sizeof *p->is_set);
    p->tail = mf_xcalloc(values, sizeof *p->tail);
    p->fetch_of = mf_xcalloc(values, sizeof *p->fetch_of);
    p->aux = mf_xcalloc(nodes, sizeof *p->aux);
    p->first = mf_xcalloc(nodes, sizeof *p->first);
    p->arena = mf_xcalloc(T, sizeof *p->arena);
    p->call = mf_xcalloc(T, sizeof *p->call);
    p->operands = mf_xcalloc(T, sizeof *p->operands);
    int(*pack)[2] = mf_xcalloc(nodes, sizeof *pack);
    mf_plan_analyse(p);
    p->shared_size = mf_plan_place_shared(p);
    mark_firsts(p);
    choose_tile(p, opts);
    find_packs(p, pack);
    int rc = allocate(p, err);
    if (rc == 0 && !p->outline)
        rc = make_packs(p, err);
    for (size_t w = 0; rc == 0 && !p->outline && w < T; w++)
        make_calls(p, (int)w, pack);
    free(pack);
    if (rc)
        mf_plan_free(p);
    else
        *out = p;
    return rc;
}

void mf_plan_free(struct mf_plan *p)
{
    if (!p)
        return;
    for (int w = 0; w < mf_workers_count(p->e->workers); w++) {
        mf_big_free(p->arena[w], p->arena_size + p->work_size);
        free(p->call[w]);
        free(p->operands[w]);
    }
    mf_big_free(p->pack_room, p->pack_size);
    mf_big_free(p->shared, p->shared_size);
    mf_big_free(p->lane, (size_t)p->lanes * p->lane_size);
    mf_big_free(p->grads, p->lane_size);
    free(p->packs);
    free(p->arena);
    free(p->call);
    free(p->operands);
    free(p->data);
    free(p->grad);
    free(p->aux);
    free(p->first);
    free(p->wanted);
    free(p->heads);
    free(p->is_set);
    free(p->tail);
    free(p->reached);
    free(p->fetch_of);
    free(p->fetch_next);
    free(p);
}

/* Pages that are never touched cost nothing: a small run leaves most of a tile's, and the lanes without a tile. */
void mf_plan_memory(const struct mf_plan *p, size_t n, struct mf_memory *to)
{
    size_t T = (size_t)mf_workers_count(p->e->workers), tile = mf_plan_tile(p, n), tiles = (n + tile - 1) / tile,
           arena = mf_plan_touched(p, tile) + find_work(p, (int)tile) * sizeof(float);
    to->of[MF_MEMORY_ACTIVATIONS] += (double)((tiles < T ? tiles : T) * arena + p->shared_size * sizeof(float));
    size_t helpers = mf_plan_together(p, n) ? T - 1 : p->backward && tiles < T ? T - tiles : 0; /* their scratch */
    to->of[MF_MEMORY_ACTIVATIONS] += (double)(helpers * find_work(p, (int)tile) * sizeof(float));
    for (size_t at = 0; p->backward && at < p->lane_size; at += MF_SLICE) {
        size_t floats = p->lane_size - at < MF_SLICE ? p->lane_size - at : MF_SLICE, lanes = (size_t)p->lanes;
        lanes = !p->reached[at / MF_SLICE] ? 0 : tiles < lanes ? tiles : lanes;
        to->of[MF_MEMORY_GRADIENTS] += (double)((lanes + 1) * floats * sizeof(float));
    }
    to->of[MF_MEMORY_WEIGHTS] += (double)(p->pack_size * sizeof(float));
}
