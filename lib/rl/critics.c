#include "rl/critics.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "op/ops.h"

static const double max_norm = 1; /* of the gradient, as published */

static struct mf_qnet named(const struct mf_critics_opts *o, const char *prefix, int n)
{
    struct mf_qnet q = o->q;
    q.ortho = true;
    q.prefix = prefix;
    q.n = n;
    return q;
}

static void record_q(struct mf_critics_net *m, const struct mf_critics_opts *o, bool learns)
{
    const struct mf_qnet q = named(o, MF_SIDE "critic", o->q.n);
    m->action = mf_input(m->g, 1, o->A);
    m->q = mf_qnet(m->g, &q, m->action, m->obs);
    if (!learns)
        return;
    m->y = mf_input(m->g, 1, 1);
    m->weight = mf_input(m->g, 1, 1);
    m->q_loss = mf_qnet_loss(m->g, &q, m->q, m->y, m->weight);
}

static void record_v(struct mf_critics_net *m, const struct mf_critics_opts *o, bool learns)
{
    const struct mf_qnet v = named(o, MF_SIDE "value", 1);
    m->v = mf_qnet(m->g, &v, MF_NONE, m->obs);
    if (!learns)
        return;
    m->v_y = mf_input(m->g, 1, 1);
    m->v_weight = mf_input(m->g, 1, 1);
    m->v_loss = mf_qnet_loss(m->g, &v, m->v, m->v_y, m->v_weight);
}

static void record(struct mf_critics_net *m, struct mf_params *ps, const struct mf_critics_opts *o, bool q, bool v,
                   bool learns)
{
    m->g = mf_graph_new(ps);
    m->obs = mf_input(m->g, 1, o->O);
    if (q)
        record_q(m, o, learns);
    if (v)
        record_v(m, o, learns);
}

static int compile(struct mf_critics_net *m, struct mf_engine *e, bool backward, struct mf_err *err)
{
    return mf_plan_new(&m->plan, e, m->g, &(struct mf_plan_opts){.backward = backward}, err);
}

int mf_critics_open(struct mf_critics *c, struct mf_engine *e, const struct mf_critics_opts *opts, bool outline,
                    struct mf_err *err)
{
    const bool q = opts->q.n > 0;
    *c = (struct mf_critics){.opts = *opts, .engine = e};
    record(&c->learn, &c->of.params, opts, q, opts->value, true);
    int rc = mf_learned_open(&c->of, e, opts->seed, outline, err);
    c->side = (struct mf_side){&c->of.params, &c->of.adam};
    rc = rc ? rc : compile(&c->learn, e, true, err);
    if (rc == 0 && q) {
        record(&c->target, &c->of.averaged, opts, true, false, false);
        rc = compile(&c->target, e, false, err);
    }
    if (rc == 0 && opts->value) {
        record(&c->value, &c->of.params, opts, false, true, false);
        rc = compile(&c->value, e, false, err);
    }
    return rc;
}

void mf_critics_release(struct mf_critics *c)
{
    struct mf_critics_net *net[] = {&c->learn, &c->target, &c->value};
    for (int i = 0; i < 3; i++)
        mf_plan_free(net[i]->plan);
    for (int i = 0; i < 3; i++)
        mf_graph_free(net[i]->g);
    mf_learned_release(&c->of);
    free(c->loss);
    *c = (struct mf_critics){.engine = NULL};
}

void mf_critics_memory(const struct mf_critics *c, size_t n, struct mf_memory *to)
{
    mf_learned_memory(&c->of, c->engine, to);
    mf_plan_memory(c->learn.plan, n, to);
    if (c->target.plan)
        mf_plan_memory(c->target.plan, n, to);
    if (c->value.plan)
        mf_plan_memory(c->value.plan, n, to);
}

static int make_room(struct mf_critics *c, size_t n, struct mf_err *err)
{
    if (n <= c->room)
        return 0;
    free(c->loss);
    c->room = 0;
    int rc = mf_alloc((void **)&c->loss, n * 2 * sizeof *c->loss, "a minibatch", err);
    c->room = rc ? 0 : n;
    return rc;
}

static double summed(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

int mf_critics_learn(struct mf_critics *c, const struct mf_critics_batch *b, double rate, float *q, float *v,
                     double *loss, struct mf_err *err)
{
    const struct mf_critics_net *m = &c->learn;
    const int N = c->opts.q.n;
    int rc = make_room(c, b->n, err);
    if (rc)
        return rc;
    struct mf_feed feed[6] = {{m->obs, b->obs, (size_t)c->opts.O, false}};
    struct mf_fetch fetch[4];
    struct mf_batch batch = {.n = b->n, .feed = feed, .n_feeds = 1, .fetch = fetch};
    if (N) {
        feed[batch.n_feeds++] = (struct mf_feed){m->action, b->actions, b->stride, false};
        feed[batch.n_feeds++] = (struct mf_feed){m->y, b->y, 1, false};
        feed[batch.n_feeds++] = (struct mf_feed){m->weight, b->weight, 1, false};
        fetch[batch.n_fetches++] = (struct mf_fetch){m->q_loss, c->loss, 1};
    }
    if (c->opts.value) {
        feed[batch.n_feeds++] = (struct mf_feed){m->v_y, b->v_y, 1, false};
        feed[batch.n_feeds++] = (struct mf_feed){m->v_weight, b->v_weight, 1, false};
        fetch[batch.n_fetches++] = (struct mf_fetch){m->v_loss, c->loss + b->n, 1};
    }
    if (q)
        fetch[batch.n_fetches++] = (struct mf_fetch){m->q, q, (size_t)N};
    if (v)
        fetch[batch.n_fetches++] = (struct mf_fetch){m->v, v, 1};
    const struct mf_step step = {.lr = {[MF_GROUP_CRITIC] = rate},
                                 .max_norm = max_norm,
                                 .ema_decay = 1 - c->opts.tau,
                                 .averaged = 1u << MF_GROUP_CRITIC,
                                 .first = true};
    struct mf_verdict verdict;
    if ((rc = mf_plan_learn(m->plan, &batch, &step, &c->of.adam, &verdict, err)))
        return rc;
    *loss = (N ? summed(c->loss, b->n) * (N == 2 ? 2 : 1) : 0) + (c->opts.value ? summed(c->loss + b->n, b->n) : 0);
    return isfinite(*loss) && verdict.finite
               ? 0
               : mf_err_set(err, MF_EMATH,
                            "the loss of the critics is %g, its gradient's norm %g: lower clone.critic_learning_rate",
                            *loss, verdict.total);
}

int mf_critics_target(struct mf_critics *c, size_t n, const float *actions, size_t stride, const float *obs, float *q,
                      struct mf_err *err)
{
    const struct mf_critics_net *m = &c->target;
    const struct mf_feed feed[] = {{m->obs, obs, (size_t)c->opts.O, false}, {m->action, actions, stride, false}};
    const struct mf_fetch fetch = {m->q, q, (size_t)c->opts.q.n};
    int rc = mf_weights_copy(c->engine, &c->of.averaged, &c->of.params, &c->of.adam, 1u << MF_GROUP_CRITIC, err);
    return rc ? rc
              : mf_plan_run(m->plan,
                            &(struct mf_batch){.n = n, .feed = feed, .n_feeds = 2, .fetch = &fetch, .n_fetches = 1},
                            err);
}

int mf_critics_value(struct mf_critics *c, size_t n, const float *obs, float *v, struct mf_err *err)
{
    const struct mf_critics_net *m = &c->value;
    const struct mf_feed feed = {m->obs, obs, (size_t)c->opts.O, false};
    const struct mf_fetch fetch = {m->v, v, 1};
    return mf_plan_run(m->plan,
                       &(struct mf_batch){.n = n, .feed = &feed, .n_feeds = 1, .fetch = &fetch, .n_fetches = 1}, err);
}
