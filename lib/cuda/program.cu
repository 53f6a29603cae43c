/* program.cu - turns a listing into calls with addresses, on each GPU. */
#include "cuda/program.h"

#include <cstring>

#include "cuda/nccl.h"

static const size_t WAVE = (size_t)1 << 30; /* floats of a wave's arena, at most: 4 GiB */

static const size_t SAMPLES = 1 << 16; /* of a wave, at most */
static const size_t GRAIN = 16;        /* places are laid out by so many samples */

int mf_cuda_samples(const struct mf_dev *d, size_t floats)
{
    size_t fit = WAVE / (floats ? floats : 1) / GRAIN * GRAIN;
    (void)d;
    return (int)(fit < GRAIN ? GRAIN : fit < SAMPLES ? fit : SAMPLES);
}

/* 1, 2, 4, 8, then sixteen sizes an octave. */
static int room(int samples)
{
    int step = 1;
    while (step * 2 <= samples && samples < 8)
        step *= 2;
    while (samples >= 8 && step * 32 <= samples)
        step *= 2;
    step = samples >= 8 && step < 4 ? 4 : step;
    return (samples + step - 1) / step * step;
}

/* ---- addresses ---- */

static float *address(const mf_gpu_part *q, struct mf_site s)
{
    switch (s.space) {
    case MF_IN_TILE:
        return q->tile + s.at;
    case MF_IN_SHARED:
        return q->shared + s.at;
    case MF_IN_TAIL:
        return q->sum + s.at;
    default:
        return NULL;
    }
}

/* The gradient of a shared operand of a call that is not: each lane has its own, behind the parameters. */
static float *in_lanes(const mf_program *p, const mf_gpu_part *q, struct mf_site grad)
{
    for (int i = 0; i < p->l->n_tails; i++)
        if (p->l->tail[i].grad.at == grad.at)
            return q->lane_room + q->lane * p->lane + p->l->tail[i].at;
    return NULL;
}

static struct mf_tensor tensor(const mf_program *p, const mf_gpu_part *q, const struct mf_listed *c,
                               const struct mf_operand *o)
{
    bool lanes = o->shared && !c->shared && o->grad.space == MF_IN_TILE;
    struct mf_tensor t = {};
    t.data = address(q, o->data);
    t.grad = lanes ? in_lanes(p, q, o->grad) : address(q, o->grad);
    t.rows = o->rows;
    t.cols = o->cols;
    t.heads = o->heads;
    t.shared = o->shared;
    t.add = o->add || lanes;
    return t;
}

static void make_calls(mf_program *p, mf_gpu_part *q)
{
    const struct mf_listing *l = p->l;
    size_t n = 0, at = 0;
    const float *weights = mf_on_gpu(p->dev, q->gpu, l->weights);
    for (int i = 0; i < l->n_calls; i++)
        n += l->call[i].n_x;
    q->operands.resize(n);
    q->call.resize(l->n_calls);
    for (int i = 0; i < l->n_calls; i++) {
        const struct mf_listed *from = &l->call[i];
        struct mf_kernel_call k = {};
        k.call.how = from->how;
        k.call.y = tensor(p, q, from, &from->y);
        k.call.x = q->operands.data() + at;
        k.call.n_x = from->n_x;
        for (int j = 0; j < from->n_x; j++)
            q->operands[at++] = tensor(p, q, from, &from->x[j]);
        k.call.aux = address(q, from->aux);
        k.call.W = from->W < 0 ? NULL : weights + from->W;
        k.call.b = from->b < 0 ? NULL : weights + from->b;
        k.call.ldw = from->ldw;
        k.call.dW = from->dW;
        k.call.db = from->db;
        k.lanes = l->backward && !from->shared ? q->lanes : 1;
        k.lane = from->shared ? q->sum : l->backward ? q->lane_room + q->lane * p->lane : NULL;
        k.stride = from->shared ? 0 : p->lane;
        k.n = from->shared ? 1 : q->lanes;
        k.precision = p->dev->precision;
        k.stream = q->stream;
        q->call[i] = k;
    }
}

/* Scratch of the hungriest call. A GPU beyond the number of lanes has shared calls alone. */
static size_t work_floats(const mf_program *p, const mf_gpu_part *q, int places)
{
    size_t most = 0;
    for (int i = 0; i < p->l->n_calls; i++) {
        struct mf_kernel_call k = q->call[i];
        k.n = p->l->call[i].shared ? 1 : q->lanes * places;
        size_t floats = k.n && p->kernel[i]->work ? p->kernel[i]->work(&k, p->l->call[i].back) : 0;
        most = floats > most ? floats : most;
    }
    return most;
}

/* ---- memory ---- */

void mf_program_forget_graphs(mf_gpu_part *q)
{
    for (mf_recorded &r : q->recorded)
        if (r.graph)
            cudaGraphExecDestroy(r.graph);
    q->recorded.clear();
}

void mf_program_fail(mf_program *p)
{
    if (p->ranks > 1 && p->dev->nccl)
        mf_nccl_abort(p->dev->nccl);
}

int mf_program_wait(mf_program *p, struct mf_err *err)
{
    int rc = 0;
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        cudaSetDevice(p->dev->id[g]);
        rc = mf_cuda_check(p->dev, g, cudaStreamSynchronize(p->part[g].stream), "a run", err);
    }
    return rc;
}

static int most_lanes(const mf_program *p)
{
    return (p->lanes + p->parts - 1) / p->parts;
}

/* Floats of the tile space are laid out for whole lines of samples. */
static int laid_out(const mf_program *p, int places)
{
    return (int)((most_lanes(p) * places + GRAIN - 1) / GRAIN * GRAIN);
}

int mf_program_grow(mf_program *p, int wanted, struct mf_err *err)
{
    int rc = mf_program_wait(p, err);
    if (rc)
        return rc;
    p->room = 0;
    p->l->place(p->l, laid_out(p, wanted));
    for (int g = 0; g < p->dev->n_gpus; g++) {
        mf_gpu_part *q = &p->part[g];
        cudaSetDevice(p->dev->id[g]);
        mf_program_forget_graphs(q);
        mf_gpu_give(p->dev, g, q->tile);
        mf_gpu_give(p->dev, g, q->work);
        q->work = NULL;
        if (!(q->tile = (float *)mf_gpu_take(p->dev, g, p->l->tile * sizeof(float), "activations", err)))
            return err->code;
        make_calls(p, q);
        mf_program_fuse(p, q, q->lanes * wanted);
        mf_program_store(p, q, q->lanes * wanted);
        size_t work = work_floats(p, q, wanted);
        if (!(q->work = (float *)mf_gpu_take(p->dev, g, work * sizeof(float), "scratch", err)))
            return err->code;
        for (mf_kernel_call &k : q->call)
            k.call.work = q->work;
    }
    p->room = wanted;
    return 0;
}

/* The places of a lane for runs of n samples. */
int mf_program_room_for(const mf_program *p, size_t n)
{
    size_t each = (n + p->lanes - 1) / p->lanes;
    return room((int)(each < 1 ? 1 : each < (size_t)p->most ? each : p->most));
}

void mf_cuda_memory(const struct mf_program *p, size_t n, struct mf_memory *to)
{
    const struct mf_listing *l = p->l;
    int samples = l->samples, gpus = p->dev->n_gpus;
    size_t floats = l->shared + (l->backward ? (p->lanes + 1) * p->lane : 0);
    l->place(l, laid_out(p, mf_program_room_for(p, n)));
    to->on_device += (double)gpus * (double)(floats + l->tile) * sizeof(float);
    to->of[MF_MEMORY_GRADIENTS] += (double)mf_program_staged(p, n);
    l->place(l, samples);
}

/* ---- compiling ---- */

static const mf_kernel *kernel_of(const struct mf_op *op)
{
    for (int i = 0; mf_kernels[i]; i++)
        if (!strcmp(mf_kernels[i]->name, op->name))
            return mf_kernels[i];
    return NULL;
}

static bool is_fed(const struct mf_value_at *v, int number)
{
    return v->input && !v->shared && v->root == number;
}

static int take_part(mf_program *p, int g, struct mf_err *err)
{
    const struct mf_listing *l = p->l;
    mf_gpu_part *q = &p->part[g];
    cudaSetDevice(p->dev->id[g]);
    if (!(q->shared = (float *)mf_gpu_take(p->dev, g, l->shared * sizeof(float), "shared values", err)) ||
        !(q->wave = (mf_wave *)mf_gpu_take(p->dev, g, sizeof(mf_wave), "a run", err)))
        return err->code;
    int rc = mf_cuda_check(p->dev, g, cudaEventCreateWithFlags(&q->done, cudaEventDisableTiming), "an event", err);
    if (rc ||
        (rc = mf_cuda_check(p->dev, g, cudaEventCreateWithFlags(&q->met, cudaEventDisableTiming), "an event", err)))
        return rc;
    for (int i = 0; i < MF_AHEAD; i++)
        for (cudaEvent_t *e : {&p->running[i].own[g], &p->running[i].copied[g]})
            if ((rc = mf_cuda_check(p->dev, g, cudaEventCreateWithFlags(e, cudaEventDisableTiming), "an event", err)))
                return rc;
    if (!l->backward)
        return 0;
    if (!(q->lane_room = (float *)mf_gpu_take(p->dev, g, p->lanes * p->lane * sizeof(float), "gradient lanes", err)) ||
        !(q->sum = (float *)mf_gpu_take(p->dev, g, p->lane * sizeof(float), "gradients", err)) ||
        !(q->step = (mf_step_in *)mf_gpu_take(p->dev, g, sizeof(mf_step_in), "a step", err)) ||
        !(q->verdict = (mf_verdict *)mf_gpu_take(p->dev, g, sizeof(mf_verdict), "a step", err)))
        return err->code;
    return mf_cuda_check(p->dev, g, mf_steps_new(&q->steps, l, mf_on_gpu(p->dev, g, l->weights), q->stream),
                         "preparing steps", err);
}

/* All ranks have as many GPUs. */
static void divide(mf_program *p)
{
    const struct mf_listing *l = p->l;
    p->ranks = l->backward ? l->verbs->count(l->ranks) : 1;
    p->parts = p->ranks * p->dev->n_gpus;
    p->first_part = p->ranks > 1 ? l->verbs->me(l->ranks) * p->dev->n_gpus : 0;
    p->rows = p->parts == 1 ? mf_rows_single(p->lanes) : 0;
    for (int i = 0; p->parts > 1 && i < p->parts; i++)
        p->rows |= mf_rows_of(mf_program_first_lane(p, i), mf_program_first_lane(p, i + 1));
}

int mf_cuda_compile(struct mf_program **out, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err)
{
    int lanes = l->backward ? l->lanes : d->n_gpus, rc = 0, inputs = 0;
    for (int i = 0; i < l->n_calls; i++)
        if (!kernel_of(l->call[i].op))
            return mf_err_set(err, MF_EUSAGE, "device=cuda does not compute '%s'; take device=cpu",
                              l->call[i].op->name);
    for (int v = 1; v < l->n_values; v++)
        inputs += is_fed(&l->value[v], v);
    if (inputs > MF_FEEDS)
        return mf_err_set(err, MF_EUSAGE, "device=cuda takes %d inputs, not %d", MF_FEEDS, inputs);
    mf_program *p = new mf_program();
    p->dev = d;
    p->l = l;
    p->lanes = lanes < l->samples ? lanes : l->samples;
    p->most = l->samples / p->lanes;
    p->lane = mf_whole_lines(l->lane);
    p->weights = p->sets = UINT64_MAX;
    for (int i = 0; i < l->n_calls; i++)
        p->kernel.push_back(kernel_of(l->call[i].op));
    for (int v = 1; v < l->n_values; v++)
        if (is_fed(&l->value[v], v))
            p->inputs.push_back(v);
    divide(p);
    for (int g = 0; g < d->n_gpus; g++) {
        mf_gpu_part *q = &p->part[g];
        q->gpu = g;
        q->lane = mf_program_first_lane(p, p->first_part + g);
        q->lanes = mf_program_first_lane(p, p->first_part + g + 1) - q->lane;
        q->stream = d->stream[g];
        if (rc == 0 && l->weights)
            rc = take_part(p, g, err);
    }
    if (rc)
        mf_cuda_forget(p);
    else
        *out = p;
    return rc;
}

static void forget_part(mf_program *p, mf_gpu_part *q)
{
    void *const all[] = {q->tile, q->shared, q->lane_room, q->sum,  q->work,   q->in,
                         q->out,  q->veto,   q->wave,      q->step, q->verdict};
    cudaSetDevice(p->dev->id[q->gpu]);
    cudaStreamSynchronize(q->stream);
    mf_program_forget_graphs(q);
    mf_steps_free(q->steps);
    for (void *each : all)
        if (each)
            cudaFree(each);
    if (q->done)
        cudaEventDestroy(q->done);
    if (q->met)
        cudaEventDestroy(q->met);
    for (mf_running &r : p->running)
        for (cudaEvent_t e : {r.own[q->gpu], r.copied[q->gpu]})
            if (e)
                cudaEventDestroy(e);
}

void mf_cuda_forget(struct mf_program *p)
{
    if (p->started != p->finished)
        mf_program_fail(p);
    for (int g = 0; g < p->dev->n_gpus; g++)
        forget_part(p, &p->part[g]);
    cudaFreeHost(p->staged);
    for (mf_running &r : p->running) {
        cudaFreeHost(r.in);
        for (int g = 0; g < p->dev->n_gpus; g++)
            cudaFreeHost(r.out[g]);
    }
    delete p;
}

int mf_cuda_set(struct mf_program *p, int value, const float *host, struct mf_err *err)
{
    const struct mf_value_at *v = &p->l->value[value];
    int rc = 0;
    for (int g = 0; rc == 0 && g < p->dev->n_gpus; g++) {
        mf_gpu_part *q = &p->part[g];
        cudaSetDevice(p->dev->id[g]);
        rc = mf_cuda_check(p->dev, g,
                           cudaMemcpyAsync(q->shared + v->data.at, host, sizeof(float) * v->rows * v->cols,
                                           cudaMemcpyHostToDevice, q->stream),
                           "setting a shared value", err);
        if (rc == 0) /* the host may change its copy on return */
            rc = mf_cuda_check(p->dev, g, cudaStreamSynchronize(q->stream), "setting a shared value", err);
    }
    return rc;
}

const float *mf_cuda_grads(struct mf_program *p)
{
    return p->part[0].sum;
}
