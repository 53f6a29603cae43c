#include "flow/cloner_priv.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "flow/chain.h"
#include "op/ops.h"

/* opts: of a student; NULL: a teacher, without a loss. */
static int build(struct mf_cloner_net *m, struct mf_engine *e, struct mf_params *ps,
                 const struct mf_policy_spec *policy, const struct mf_clone_opts *opts, struct mf_err *err)
{
    const struct mf_net_spec *s = &policy->net;
    const float dropout = opts ? opts->dropout : 0;
    struct mf_graph *g = m->g = mf_graph_new(ps);
    m->obs = mf_input(g, 1, s->O);
    m->x = mf_input(g, 1, s->D);
    m->t = mf_input(g, 1, 1);
    if (s->net->step_size)
        m->d = mf_input(g, 1, 1);
    struct mf_share obs = mf_net_features(g, s, m->obs, false), time = s->net->time(g, s, m->t, m->d);
    if (s->net->encode)
        s->net->encode(g, s, &obs);
    if (dropout > 0 && s->net->dropout)
        obs.key = m->key = mf_input(g, 1, 1);
    obs.drop = dropout;
    m->v = s->net->velocity(g, s, &obs, &time, mf_net_tokens(g, s, &obs, &time, m->x));
    if (opts) {
        m->target = mf_input(g, 1, s->D);
        m->weight = mf_input(g, 1, 1);
        const bool all = opts->dims == MF_LOSS_ALL;
        m->loss = mf_mse(g, all ? m->v : mf_chain_executable(g, policy, m->v),
                         all ? m->target : mf_chain_executable(g, policy, m->target), m->weight);
        mf_loss(g, m->loss, 1);
    }
    return mf_plan_new(&m->plan, e, g, &(struct mf_plan_opts){.backward = opts != NULL}, err);
}

/* cfm trains at the step size 0 alone, the other losses with a teacher at others. */
static int check_loss(const struct mf_policy_spec *s, enum mf_clone_loss loss, struct mf_err *err)
{
    const char *name = loss == MF_CLONE_SHORTCUT ? "shortcut" : "consistency";
    char nets[256] = "";
    for (size_t i = 0; mf_nets[i]; i++)
        if (mf_nets[i]->step_size)
            mf_list_add(nets, sizeof nets, ", ", mf_nets[i]->name);
    if (loss == MF_CLONE_CFM && s->net.net->step_size && s->target_time == MF_TARGET_STEP)
        return mf_err_set(err, MF_EUSAGE,
                          "clone.loss=cfm trains at the step size 0, and policy.target_time=step samples at 1/K: use "
                          "policy.target_time=zero, or clone.loss=consistency");
    if (loss == MF_CLONE_FLOW || loss == MF_CLONE_CFM)
        return 0;
    if (!s->net.net->step_size)
        return mf_err_set(err, MF_EUSAGE,
                          "clone.loss=%s needs a network that takes a step size, which %s does not: use one of "
                          "policy.network=%s",
                          name, s->net.net->name, nets);
    if (s->target_time == MF_TARGET_ZERO)
        return mf_err_set(err, MF_EUSAGE,
                          "clone.loss=%s teaches step sizes, and policy.target_time=zero gives the network none: use "
                          "policy.target_time=step, or clone.loss=flow",
                          name);
    return 0;
}

int mf_cloner_new(struct mf_cloner **c, struct mf_engine *e, struct mf_policy *p, const struct mf_clone_opts *opts,
                  struct mf_err *err)
{
    enum mf_clone_loss loss = opts->loss;
    enum mf_time_sampling sampling = opts->sampling;
    if (sampling == MF_TIME_AUTO)
        sampling = loss == MF_CLONE_CONSISTENCY || loss == MF_CLONE_CFM ? MF_TIME_BETA : MF_TIME_UNIFORM;
    if (check_loss(&p->spec, loss, err))
        return err->code;
    struct mf_cloner *m = mf_xcalloc(1, sizeof *m);
    *m = (struct mf_cloner){.p = p,
                            .e = e,
                            .kind = loss,
                            .sampling = sampling,
                            .seed = opts->seed,
                            .dropout = opts->dropout,
                            .teacher = p->params};
    int rc = build(&m->student, e, &p->params, &p->spec, opts, err);
    m->teacher.value = NULL;
    if (!rc && loss != MF_CLONE_FLOW && p->params.value)
        rc = mf_params_alloc(&m->teacher, err);
    if (!rc && loss != MF_CLONE_FLOW)
        rc = build(&m->other, e, &m->teacher, &p->spec, NULL, err);
    if (rc) {
        mf_cloner_free(m);
        return rc;
    }
    *c = m;
    return 0;
}

void mf_cloner_free(struct mf_cloner *c)
{
    if (!c)
        return;
    mf_plan_free(c->student.plan);
    mf_plan_free(c->other.plan);
    mf_graph_free(c->student.g);
    mf_graph_free(c->other.g);
    mf_arena_release(&c->arena);
    free(c->teacher.value); /* its table is the policy's */
    free(c);
}

/* v of the teacher at (x2, t2, d2) for the rows that have one, in noise0. */
static int ask(struct mf_cloner *m, const float *obs, struct mf_err *err)
{
    const struct mf_net_spec *s = &m->p->spec.net;
    size_t from = m->n - m->taught, D = (size_t)s->D, O = (size_t)s->O;
    bool noise1 = m->p->spec.convention == MF_NOISE1;
    float *time = m->loss + from; /* free until the student runs */
    for (size_t i = 0; i < m->taught; i++)
        time[i] = noise1 ? 1 - m->t2[from + i] : m->t2[from + i];
    struct mf_feed feed[] = {{m->other.obs, m->index ? obs : obs + from * O, O, false},
                             {m->other.x, m->x2 + from * D, D, true},
                             {m->other.t, time, 1, true},
                             {m->other.d, m->d2 + from, 1, true}};
    struct mf_fetch fetch = {m->other.v, m->v + from * D, D};
    const struct mf_batch batch = {.n = m->taught,
                                   .index = m->index ? m->index + from : NULL,
                                   .feed = feed,
                                   .n_feeds = 3 + (m->other.d.id != 0),
                                   .fetch = &fetch,
                                   .n_fetches = 1};
    int rc = mf_plan_run(m->other.plan, &batch, err);
    for (size_t i = from * D; !rc && noise1 && i < m->n * D; i++)
        m->v[i] = -m->v[i];
    return rc;
}

/* Two half steps' mean velocity (Frans et al., 2024, eq. 4). */
static int shortcut_targets(struct mf_cloner *m, const float *obs, struct mf_err *err)
{
    size_t D = (size_t)m->p->spec.net.D, from = m->n - m->taught;
    int rc = ask(m, obs, err);
    if (rc)
        return rc;
    for (size_t i = from; i < m->n; i++) {
        for (size_t j = i * D; j < (i + 1) * D; j++) {
            m->target[j] = m->v[j];
            m->x2[j] += m->v[j] * m->d2[i];
        }
        m->t2[i] += m->d2[i];
    }
    rc = ask(m, obs, err);
    for (size_t j = from * D; j < m->n * D; j++)
        m->target[j] = (m->target[j] + m->v[j]) / 2;
    return rc;
}

/* The velocity from x_t to the end point that the teacher predicts from x_t' (ManiFlow; cfm). */
static int consistency_targets(struct mf_cloner *m, const float *obs, struct mf_err *err)
{
    size_t D = (size_t)m->p->spec.net.D;
    int rc = ask(m, obs, err);
    for (size_t i = m->n - m->taught; i < m->n; i++)
        for (size_t j = i * D; j < (i + 1) * D; j++)
            m->target[j] = (m->x2[j] + (1 - m->t2[i]) * m->v[j] - m->x[j]) / (1 - m->t[i]);
    return rc;
}

static int teach(struct mf_cloner *m, const float *obs, struct mf_optimizer *o, struct mf_err *err)
{
    if (m->taught == 0)
        return 0;
    /* ManiFlow's teacher has the encoder of the student, and the average of the policy group alone. */
    const unsigned averaged = m->kind == MF_CLONE_CFM ? MF_AVERAGED : 1u << MF_GROUP_POLICY;
    int rc = mf_weights_copy(m->e, &m->teacher, &m->p->params, o->ema ? &o->adam : NULL, averaged, err);
    if (rc)
        return rc;
    return m->kind == MF_CLONE_SHORTCUT ? shortcut_targets(m, obs, err) : consistency_targets(m, obs, err);
}

/* From noise0 to noise1. */
static void flip(struct mf_cloner *m)
{
    for (size_t i = 0; i < m->n; i++)
        m->t[i] = 1 - m->t[i];
    for (size_t j = 0; j < m->n * (size_t)m->p->spec.net.D; j++)
        m->target[j] = -m->target[j];
}

static int start(struct mf_cloner *m, const struct mf_clone_batch *b, struct mf_optimizer *o, const struct mf_step *how,
                 struct mf_verdict *verdict, struct mf_err *err)
{
    const struct mf_net_spec *s = &m->p->spec.net;
    size_t D = (size_t)s->D;
    const struct mf_feed feed[] = {{m->student.obs, b->obs, (size_t)s->O, false},
                                   {m->student.x, m->x, D, true},
                                   {m->student.t, m->t, 1, true},
                                   {m->student.target, m->target, D, true},
                                   {m->student.weight, m->weight, 1, true},
                                   {m->student.d, m->d, 1, true},
                                   {m->student.key, m->key, 1, true}};
    const struct mf_fetch fetch = {m->student.loss, m->loss, 1};
    const struct mf_batch batch = {.n = b->n,
                                   .index = b->index,
                                   .feed = feed,
                                   .n_feeds = 5 + (m->student.d.id != 0) + (m->student.key.id != 0),
                                   .fetch = &fetch,
                                   .n_fetches = 1};
    return mf_optimizer_start(o, m->student.plan, &batch, how, verdict, err);
}

int mf_cloner_start(struct mf_cloner *m, const struct mf_clone_batch *b, struct mf_optimizer *o,
                    const struct mf_step *how, struct mf_verdict *verdict, struct mf_err *err)
{
    int rc = m->drawn && m->step == b->step ? 0 : mf_cloner_draw(m, b, err);
    m->drawn = false;
    if (rc || (rc = teach(m, b->obs, o, err)))
        return rc;
    if (m->p->spec.convention == MF_NOISE1)
        flip(m);
    for (size_t i = 0; b->weight && i < b->n; i++)
        m->weight[i] *= b->weight[i];
    m->started.step = b->step;
    m->started.n = b->n;
    return start(m, b, o, how, verdict, err);
}

int mf_cloner_finish(struct mf_cloner *m, struct mf_optimizer *o, double *loss, const struct mf_verdict *verdict,
                     struct mf_err *err)
{
    int rc = mf_optimizer_finish(o, m->student.plan, verdict, err);
    *loss = 0;
    for (size_t i = 0; (!rc || rc == MF_EMATH) && i < m->started.n; i++)
        *loss += m->loss[i];
    if (!isfinite(*loss))
        return mf_err_set(err, MF_EMATH, "the cloning loss of step %lld is not a number", (long long)m->started.step);
    return rc;
}

int mf_cloner_run(struct mf_cloner *m, const struct mf_clone_batch *b, struct mf_optimizer *o,
                  const struct mf_step *how, double *loss, struct mf_verdict *verdict, struct mf_err *err)
{
    struct mf_step alone = *how;
    alone.first = true;
    int rc = mf_cloner_start(m, b, o, &alone, verdict, err);
    return rc ? rc : mf_cloner_finish(m, o, loss, verdict, err);
}

const float *mf_cloner_grads(struct mf_cloner *m)
{
    return mf_plan_grads(m->student.plan);
}
