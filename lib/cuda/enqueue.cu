/* enqueue.cu - a wave of samples, and the end of a run, as one graph of kernels. */
#include "cuda/program.h"

#include "cuda/few.h"
#include "cuda/launch.h"

struct enqueuing {
    mf_program *p;
    mf_gpu_part *q;
    const mf_graph_key *key;
    struct mf_places places;
    cudaError_t rc; /* the first failure; nothing is enqueued after it */
};

static void then(struct enqueuing *e, cudaError_t rc)
{
    e->rc = e->rc == cudaSuccess ? rc : e->rc;
}

static struct mf_fetching fetching(const struct enqueuing *e, int number)
{
    const struct mf_value_at *v = &e->p->l->value[e->key->fetched[number]];
    return {e->q->wave, e->places, number, v->rows * v->cols, (v->shared ? e->q->shared : e->q->tile) + v->data.at,
            v->shared};
}

static void fetch(struct enqueuing *e, int value)
{
    for (size_t i = 0; i < e->key->fetched.size(); i++)
        if (e->p->l->value[e->key->fetched[i]].root == value && e->rc == cudaSuccess)
            then(e, mf_fetch_one(fetching(e, (int)i), e->q->stream));
}

/* Rounded where no call reads more, but in full for the host. */
static bool stored_bf16(const struct enqueuing *e, int i)
{
    bool is = i >= 0 && e->q->bf16[i];
    for (size_t f = 0; is && f < e->key->fetched.size(); f++)
        is = e->p->l->value[e->key->fetched[f]].root != e->p->l->call[i].value;
    return is;
}

static struct mf_kernel_call plain_call(const struct enqueuing *e, int i)
{
    struct mf_kernel_call k = e->q->call[i];
    k.n = e->p->l->call[i].shared ? 1 : e->places.lanes * e->places.room;
    return k;
}

static struct mf_kernel_call call_of(const struct enqueuing *e, int i)
{
    struct mf_kernel_call k = plain_call(e, i);
    k.x_bf16 = stored_bf16(e, e->q->from[i]);
    k.y_bf16 = stored_bf16(e, i);
    return k;
}

static void forward(struct enqueuing *e, int i)
{
    struct mf_kernel_call k = call_of(e, i);
    if (e->rc == cudaSuccess)
        then(e, e->p->kernel[i]->forward(&k));
}

/* Forward of the calls of a run. */
static void fused(struct enqueuing *e, int i, const struct mf_run_of *run)
{
    struct mf_kernel_call k[MF_FUSED];
    for (int j = 0; j < run->calls; j++)
        k[j] = call_of(e, i + j);
    if (e->rc == cudaSuccess)
        then(e, run->by->forward(&e->p->kernel[i], k, run->calls));
}

static void backward(struct enqueuing *e, const mf_back_run *run)
{
    std::vector<const struct mf_kernel *> kernel;
    std::vector<mf_kernel_call> calls;
    for (int i : run->call) {
        const struct mf_listed *c = &e->p->l->call[i];
        struct mf_kernel_call k = call_of(e, i);
        k.call.sets = !c->shared && e->key->first && c->first_W && c->op->sets && c->op->sets(&k.call);
        calls.push_back(k);
        kernel.push_back(e->p->kernel[i]);
    }
    if (e->rc == cudaSuccess)
        then(e, run->by ? run->by->backward(kernel.data(), calls.data(), (int)calls.size())
                        : kernel[0]->backward(&calls[0]));
}

static void run_shared(struct enqueuing *e)
{
    for (int i = 0; i < e->p->l->n_calls; i++)
        if (e->p->l->call[i].shared)
            forward(e, i);
}

/* Forward of few samples in one launch. false: it has calls that are not able, and nothing was enqueued. */
static bool few_forward(struct enqueuing *e)
{
    const struct mf_listing *l = e->p->l;
    mf_few all;
    if (!e->p->dev->few || l->backward || e->places.lanes * e->places.room > MF_FEW)
        return false;
    for (int i = 0; i < l->n_calls; i++) {
        struct mf_kernel_call k = plain_call(e, i);
        if (!l->call[i].shared && !all.add(e->p->kernel[i], &k))
            return false;
        for (size_t f = 0; f < e->key->fetched.size(); f++)
            if (l->value[e->key->fetched[f]].root == l->call[i].value)
                all.fetch(fetching(e, (int)f));
    }
    if (e->rc == cudaSuccess)
        then(e, all.run(e->p->dev->precision, e->q->stream));
    return true;
}

static void run_forward(struct enqueuing *e)
{
    const struct mf_listing *l = e->p->l;
    struct mf_feed_to to[MF_FEEDS];
    int n = 0;
    for (int v : e->p->inputs) {
        to[n].to = e->q->tile + l->value[v].data.at;
        to[n++].floats = l->value[v].rows * l->value[v].cols;
    }
    then(e, mf_feed_all(e->q->wave, e->places, to, n, e->q->stream));
    for (int v = 1; v < l->n_values; v++)
        if (l->value[v].input && l->value[v].root == v)
            fetch(e, v);
    bool few = few_forward(e);
    for (int i = 0, next; !few && i < l->n_calls; i = next) {
        const struct mf_run_of *run = &e->q->run[i];
        next = i + run->calls;
        if (run->by)
            fused(e, i, run);
        else if (!l->call[i].shared)
            forward(e, i);
        for (int j = i; j < next; j++)
            fetch(e, l->call[j].value);
    }
}

static void run_backward(struct enqueuing *e)
{
    const struct mf_listing *l = e->p->l;
    for (int i = 0; i < l->n_starts; i++)
        if (!l->start[i].shared && e->rc == cudaSuccess)
            then(e, mf_start_loss(e->q->wave, e->places, e->q->tile + l->start[i].grad.at, l->start[i].scale,
                                  e->q->stream));
    for (const mf_back_run &run : e->q->back)
        backward(e, &run);
}

/* This GPU's lanes become rows. */
static void run_fold(struct enqueuing *e)
{
    size_t lane = e->p->lane;
    for (int l = e->q->lane, n; l < e->q->lane + e->q->lanes; l += n) {
        float *row = e->q->lane_room + l * lane;
        n = mf_rows_lanes(e->p->rows, l, e->p->lanes);
        if (n > 1 && e->rc == cudaSuccess)
            then(e, mf_lanes_sum(row, row, lane, mf_rows_single(n), lane, e->q->stream));
    }
}

/* Sums the lanes of all GPUs; shared calls run backward from there; the step. */
static void run_end(struct enqueuing *e)
{
    const struct mf_listing *l = e->p->l;
    mf_gpu_part *q = e->q;
    if (e->rc == cudaSuccess)
        then(e, mf_lanes_sum(q->sum, q->lane_room, e->p->lane, e->p->rows, e->p->lane, q->stream));
    for (int i = 0; i < l->n_starts; i++) {
        bool tail = l->start[i].grad.space == MF_IN_TAIL;
        if (l->start[i].shared && e->rc == cudaSuccess)
            then(e, mf_start_shared(q->wave, (tail ? q->sum : q->shared) + l->start[i].grad.at, l->start[i].scale, tail,
                                    q->stream));
    }
    for (const mf_back_run &run : q->back_shared)
        backward(e, &run);
    if (e->key->step && e->rc == cudaSuccess)
        then(e, mf_steps_step(q->steps, q->step, q->verdict, q->sum, q->veto, q->stream));
}

static cudaError_t enqueue(mf_program *p, mf_gpu_part *q, const mf_graph_key *key)
{
    struct enqueuing e = {p, q, key, {q->lane, q->lanes, key->room}, cudaSuccess};
    if (key->shared)
        run_shared(&e);
    if (key->first && p->l->backward && q->lanes)
        then(&e, cudaMemsetAsync(q->lane_room + q->lane * p->lane, 0, q->lanes * p->lane * sizeof(float), q->stream));
    if (key->wave)
        run_forward(&e);
    if (key->wave && p->l->backward)
        run_backward(&e);
    if (key->fold)
        run_fold(&e);
    if (key->end)
        run_end(&e);
    return e.rc;
}

/* ---- recording ---- */

static mf_recorded *find(mf_program *p, mf_gpu_part *q, const mf_graph_key *key)
{
    mf_recorded *oldest = NULL;
    for (mf_recorded &r : q->recorded) {
        if (r.key == *key) {
            r.used = ++p->clock;
            return &r;
        }
        oldest = !oldest || r.used < oldest->used ? &r : oldest;
    }
    if (q->recorded.size() < MF_GRAPHS) {
        q->recorded.push_back({*key, NULL, ++p->clock});
        return NULL;
    }
    if (oldest->graph)
        cudaGraphExecDestroy(oldest->graph);
    *oldest = {*key, NULL, ++p->clock};
    return NULL;
}

static cudaError_t record(mf_program *p, mf_gpu_part *q, mf_recorded *r)
{
    cudaGraph_t graph = NULL;
    cudaError_t rc = cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeThreadLocal);
    if (rc != cudaSuccess)
        return rc;
    rc = enqueue(p, q, &r->key);
    cudaError_t end = cudaStreamEndCapture(q->stream, &graph);
    if (rc == cudaSuccess && (rc = end) == cudaSuccess)
        rc = cudaGraphInstantiate(&r->graph, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return rc;
}

/* The first run is not recorded: kernels are loaded at their first launch, which a recording does not allow. */
int mf_program_enqueue(mf_program *p, mf_gpu_part *q, const mf_graph_key *key, struct mf_err *err)
{
    mf_recorded *r = p->dev->graphs ? find(p, q, key) : NULL;
    cudaError_t rc = cudaSuccess;
    if (r && !r->graph)
        rc = record(p, q, r);
    if (rc == cudaSuccess)
        rc = r ? cudaGraphLaunch(r->graph, q->stream) : enqueue(p, q, key);
    return mf_cuda_check(p->dev, q->gpu, rc, "a run", err);
}
