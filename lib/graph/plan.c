/* plan.c - compile a graph for a device, and run it there. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/plan_priv.h"
#include "ranks/ranks.h"

enum {
    LANES = 8,
    LANES_BIG = 2,
    BIG = 16 << 20, /* floats of trained parameters above which lanes are few */
};

static void place_again(const struct mf_listing *l, int samples)
{
    struct mf_plan *p = (struct mf_plan *)((uintptr_t)l - offsetof(struct mf_plan, l));
    p->l.samples = samples;
    p->l.tile = mf_plan_place(p, samples);
    mf_plan_unlist(p);
    mf_plan_list(p);
}

static int lanes_of(const struct mf_plan *p, const struct mf_plan_opts *opts)
{
    const int lanes = opts->lanes > 0 ? opts->lanes : p->e->lanes;
    return lanes > 0 ? lanes : p->params->trained > BIG ? LANES_BIG : LANES;
}

static void choose_sizes(struct mf_plan *p, const struct mf_plan_opts *opts)
{
    p->l.samples = opts->tile > 0 ? opts->tile : p->e->device->samples(p->e->dev, mf_plan_place(p, 1));
    p->l.exact = opts->tile > 0;
    p->l.place = place_again;
    p->l.lanes = lanes_of(p, opts);
    p->l.backward = opts->backward;
    p->l.ranks = p->e->ranks;
    p->l.segment = p->segment = mf_segments(p->params, mf_ranks_count(p->e->ranks));
    p->l.verbs = &mf_engine_verbs;
    p->l.shared = mf_plan_place_shared(p);
    p->l.tile = mf_plan_place(p, p->l.samples);
}

/* Once: a learner has several plans, and outlines of them. */
static void warn_of_idle(struct mf_plan *p)
{
    const int ranks = mf_ranks_count(p->e->ranks), lanes = p->l.lanes;
    if (!p->backward || ranks <= lanes || p->e->warned || !p->params->value)
        return;
    mf_log(MF_LOG_WARN, "%d of %d ranks have no samples: gradients have %d lanes; lanes=%d gives a new run more",
           ranks - lanes, ranks, lanes, ranks < MF_LANES_MAX ? ranks : MF_LANES_MAX);
    p->e->warned = true;
}

static int compile(struct mf_plan *p, struct mf_err *err)
{
    if (p->params->value && !(p->weights = mf_engine_mirror(p->e, p->params->value, p->params->size, err)))
        return err->code;
    p->l.weights = p->weights ? p->weights->device : NULL;
    return p->e->device->compile(&p->program, p->e->dev, &p->l, err);
}

int mf_plan_new(struct mf_plan **out, struct mf_engine *e, struct mf_graph *g, const struct mf_plan_opts *opts,
                struct mf_err *err)
{
    size_t values = (size_t)g->n_values;
    if (opts->lanes > MF_LANES_MAX)
        return mf_err_set(err, MF_EUSAGE, "a plan has at most %d lanes, not %d", MF_LANES_MAX, opts->lanes);
    struct mf_plan *p = mf_xcalloc(1, sizeof *p);
    *p = (struct mf_plan){.e = e, .g = g, .params = g->params, .backward = opts->backward, .sets = 1};
    p->data = mf_xcalloc(values, sizeof *p->data);
    p->grad = mf_xcalloc(values, sizeof *p->grad);
    p->wanted = mf_xcalloc(values, sizeof *p->wanted);
    p->heads = mf_xcalloc(values, sizeof *p->heads);
    p->tail = mf_xcalloc(values, sizeof *p->tail);
    p->set = mf_xcalloc(values, sizeof *p->set);
    p->aux = mf_xcalloc((size_t)g->n_nodes, sizeof *p->aux);
    mf_plan_analyse(p);
    choose_sizes(p, opts);
    warn_of_idle(p);
    mf_plan_list(p);
    int rc = compile(p, err);
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
    if (p->program)
        p->e->device->forget(p->program);
    mf_engine_unmirror(p->e, p->weights);
    for (int v = 0; v < p->g->n_values; v++)
        free(p->set[v].data);
    mf_plan_unlist(p);
    free(p->data);
    free(p->grad);
    free(p->aux);
    free(p->wanted);
    free(p->heads);
    free(p->tail);
    free(p->set);
    free(p->grads);
    free(p->segment);
    free(p);
}

void mf_plan_memory(const struct mf_plan *p, size_t n, struct mf_memory *to)
{
    p->e->device->memory(p->program, n, to);
}

void mf_plan_ranks(const struct mf_plan *p, size_t n, int *of)
{
    p->e->device->ranks(p->program, n, of);
}

void mf_plan_set(struct mf_plan *p, struct mf_val shared, const float *data)
{
    const struct mf_value *v = &p->g->value[shared.id];
    if (!v->shared || v->node >= 0)
        abort();
    struct mf_set *s = &p->set[v->root];
    size_t size = sizeof(float) * (size_t)v->rows * (size_t)v->cols;
    if (s->data && memcmp(s->data, data, size) == 0)
        return;
    s->data = s->data ? s->data : mf_xcalloc(1, size);
    memcpy(s->data, data, size);
    s->sent = false;
    p->sets++;
}

static int send_sets(struct mf_plan *p, struct mf_err *err)
{
    int rc = 0;
    for (int v = 1; rc == 0 && v < p->g->n_values; v++) {
        struct mf_set *s = &p->set[v];
        if (!s->data || s->sent)
            continue;
        rc = p->e->device->set(p->program, v, s->data, err);
        s->sent = rc == 0;
    }
    return rc;
}

static int check(const struct mf_plan *p, const struct mf_batch *b, bool step, struct mf_err *err)
{
    int inputs = 0;
    if (!p->weights)
        return mf_err_set(err, MF_EUSAGE, "a plan of parameters without values cannot run");
    if (step && !p->backward)
        return mf_err_set(err, MF_EUSAGE, "a plan without gradients cannot take a step of the optimiser");
    for (int v = 1; v < p->g->n_values; v++) {
        const struct mf_value *x = &p->g->value[v];
        if (x->node >= 0 || x->root != v)
            continue;
        inputs += !x->shared;
        if (x->shared && !p->set[v].data)
            return mf_err_set(err, MF_EUSAGE, "shared input %d (%d, %d) of a plan was never set", v, x->rows, x->cols);
    }
    if (b->n_feeds != inputs)
        return mf_err_set(err, MF_EUSAGE, "a plan with %d inputs was fed %d", inputs, b->n_feeds);
    for (int i = 0; i < b->n_fetches; i++)
        if (p->heads[p->g->value[b->fetch[i].value.id].root] > 1)
            return mf_err_set(err, MF_EUSAGE, "value %d is stored head by head: fetch the value made of it",
                              b->fetch[i].value.id);
    return 0;
}

/* The device gets the weights and shared inputs that the host has changed. */
static int prepare(struct mf_plan *p, struct mf_job *j, struct mf_err *err)
{
    int rc = check(p, j->batch, j->step, err);
    if (rc || (rc = mf_mirror_update(p->e, p->weights, p->params, err)) || (rc = send_sets(p, err)))
        return rc;
    j->weights = p->params->version;
    j->sets = p->sets;
    return 0;
}

int mf_plan_run(struct mf_plan *p, const struct mf_batch *b, struct mf_err *err)
{
    struct mf_job j = {.batch = b};
    int rc = prepare(p, &j, err);
    if (rc || (rc = p->e->device->start(p->program, &j, err)))
        return rc;
    return mf_plan_finish(p, err);
}

int mf_plan_start(struct mf_plan *p, const struct mf_batch *b, const struct mf_step *how, struct mf_adam *a,
                  struct mf_verdict *verdict, struct mf_err *err)
{
    struct mf_step step = *how;
    struct mf_job j = {.batch = b, .step = &step, .verdict = verdict};
    int rc = prepare(p, &j, err);
    if (rc || (rc = mf_adam_ready(a, p->e, err)))
        return rc;
    step.of = a->on_device;
    step.beta1 = a->beta1;
    step.beta2 = a->beta2;
    step.eps = a->eps;
    step.weight_decay = a->weight_decay;
    if ((rc = p->e->device->start(p->program, &j, err)))
        return rc;
    mf_params_touch(p->params);
    p->weights->version = p->params->version; /* the device makes them, if it takes the step */
    p->weights->ahead = a->ahead = true;
    return 0;
}

int mf_plan_finish(struct mf_plan *p, struct mf_err *err)
{
    return p->e->device->finish(p->program, err);
}

int mf_plan_learn(struct mf_plan *p, const struct mf_batch *b, const struct mf_step *how, struct mf_adam *a,
                  struct mf_verdict *verdict, struct mf_err *err)
{
    struct mf_step step = *how;
    step.first = true;
    int rc = mf_plan_start(p, b, &step, a, verdict, err);
    return rc ? rc : mf_plan_finish(p, err);
}

const float *mf_plan_grads(struct mf_plan *p)
{
    struct mf_err err;
    if (!p->grads &&
        mf_alloc((void **)&p->grads, p->params->trained * sizeof *p->grads, "a copy of the gradients", &err))
        return NULL;
    const struct mf_device *d = p->e->device;
    return d->get(p->e->dev, p->grads, d->grads(p->program), p->params->trained, &err) ? NULL : p->grads;
}
