/* ppo.c - the learner's graphs. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "flow/ops.h"
#include "op/ops.h"
#include "ranks/ranks.h"
#include "rl/losses.h"
#include "rl/minibatch.h"
#include "rl/ppo_priv.h"
#include "rl/proximal.h"
#include "rl/rfc.h"

static void level_of(struct mf_ppo *q, struct mf_graph *g)
{
    const struct mf_policy_spec *s = &q->policy->spec;
    int A = s->action_dim, C = s->n_action_steps;
    q->new_level = q->score.logprobs;
    q->old_level = q->old;
    q->width = mf_logprob_width(s);
    if (!mf_logprob_by_action(s) || q->opts.level == MF_TOKEN)
        return;
    enum mf_reduce how = q->opts.level == MF_ACTION ? MF_REDUCE_ACTION : MF_REDUCE_CHUNK;
    q->new_level = mf_reduce(g, q->score.logprobs, MF_NONE, how, A, C, 0, 1);
    q->old_level = mf_reduce(g, q->old, MF_NONE, how, A, C, 0, 1);
    q->width = q->opts.level == MF_ACTION ? C : 1;
}

static void add_critic_loss(struct mf_ppo_loss *l, struct mf_val obs, struct mf_val value)
{
    struct mf_graph *g = l->graph;
    l->obs = obs;
    l->value = value;
    l->returns = mf_input(g, 1, 1);
    l->value_old = mf_input(g, 1, 1);
    l->value_weight = mf_input(g, 1, 1);
    l->knobs = mf_shared(g, 1, 4);
    mf_loss(g, mf_value_loss(g, value, l->returns, l->value_old, l->value_weight, l->knobs), 1);
}

static int plan(const struct mf_ppo *q, struct mf_ppo_loss *l, struct mf_err *err)
{
    const float knobs[4] = {(float)q->opts.value_clip, (float)q->opts.huber_delta, 0, 0};
    int rc = mf_plan_new(&l->plan, q->engine, l->graph, &(struct mf_plan_opts){.backward = true}, err);
    if (rc == 0 && l->value.id)
        mf_plan_set(l->plan, l->knobs, knobs);
    return rc;
}

static int build_full(struct mf_ppo *q, struct mf_err *err)
{
    const struct mf_ppo_opts *o = &q->opts;
    const float knobs[4] = {(float)o->clip_range, (float)o->dual_clip, (float)o->logprob_clamp, (float)o->trust_region};
    struct mf_graph *g = q->full.graph = mf_graph_new(&q->policy->params);
    mf_score_build(g, q->policy, &q->score);
    q->old = mf_input(g, 1, mf_logprob_width(&q->policy->spec));
    level_of(q, g);
    q->advantage = mf_input(g, 1, 1);
    q->weight = mf_input(g, 1, q->width);
    q->knobs = mf_shared(g, 1, 4);
    mf_loss(g, mf_ppo_loss(g, q->new_level, q->old_level, q->advantage, q->weight, q->knobs), 1);
    if (o->target_kl > 0 && isfinite(o->target_kl)) {
        q->kl_weight = mf_input(g, 1, q->width);
        q->kl = mf_kl(g, q->new_level, q->old_level, q->kl_weight, q->knobs);
    }
    q->full.obs = q->score.obs;
    if (q->score.value.id)
        add_critic_loss(&q->full, q->score.obs, q->score.value);
    if (q->score.entropy.id && o->entropy_coef > 0) {
        q->entropy_weight = mf_input(g, 1, 1);
        mf_loss(g, mf_weigh(g, q->score.entropy, q->entropy_weight), -1);
    }
    if (o->rfc_coef > 0)
        mf_reflow_build(g, &q->policy->spec, &q->score.encoded, &q->reflow);
    int rc = plan(q, &q->full, err);
    if (rc == 0)
        mf_plan_set(q->full.plan, q->knobs, knobs);
    return rc;
}

static int build_warmup(struct mf_ppo *q, struct mf_err *err)
{
    const struct mf_policy_spec *s = &q->policy->spec;
    struct mf_graph *g = q->warmup.graph = mf_graph_new(&q->policy->params);
    const struct mf_val obs = mf_input(g, 1, s->net.O);
    const struct mf_share share = mf_net_features(g, &s->net, obs, true);
    add_critic_loss(&q->warmup, obs, mf_net_value(g, &s->net, s->n_critic, s->critic, &share));
    return plan(q, &q->warmup, err);
}

static int check_opts(const struct mf_policy_spec *s, const struct mf_ppo_opts *o, struct mf_err *err)
{
    if (o->recompute_logprobs && o->proximal > 0)
        return mf_err_set(err, MF_EUSAGE,
                          "training.recompute_logprobs=true replaces the log-probabilities of the rollout, which "
                          "training.proximal=%g needs: set one of the two",
                          o->proximal);
    if (o->trust_region == MF_TRUST_ASPO && o->dual_clip > 0)
        return mf_err_set(err, MF_EUSAGE,
                          "training.dual_clip=%g bounds PPO's clip, which training.trust_region=aspo replaces at "
                          "negative advantages: set one of the two",
                          o->dual_clip);
    if (o->rfc_coef > 0 && s->steer)
        return mf_err_set(err, MF_EUSAGE,
                          "training.rfc_coef=%g trains the flow, which policy.steer freezes: set training.rfc_coef=0",
                          o->rfc_coef);
    if (o->rfc_coef > 0 && !mf_policy_scores_chain(s))
        return mf_err_set(err, MF_EUSAGE,
                          "training.rfc_coef=%g needs both ends of denoising chains, and rollouts of this "
                          "policy.objective hold no chains: set training.rfc_coef=0, or another objective",
                          o->rfc_coef);
    return 0;
}

int mf_ppo_new(struct mf_ppo **ppo, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *opts,
               struct mf_err *err)
{
    if (check_opts(&p->spec, opts, err))
        return err->code;
    struct mf_ppo *q = mf_xcalloc(1, sizeof *q);
    q->engine = e;
    q->policy = p;
    q->opts = *opts;
    int rc = build_full(q, err);
    if (rc == 0 && opts->critic_warmup_steps > 0 && p->spec.n_critic)
        rc = build_warmup(q, err);
    if (rc == 0)
        rc = mf_optimizer_init(&q->optimizer, e, &p->params,
                               &(struct mf_optimizer_opts){.average = opts->ema_decay > 0,
                                                           .weight_decay = opts->weight_decay,
                                                           .patience = 3,
                                                           .rate = "training.learning_rate",
                                                           .counter = "minibatches"},
                               err);
    if (rc) {
        mf_ppo_free(q);
        return rc;
    }
    *ppo = q;
    return 0;
}

int mf_ppo_ahead(const struct mf_ppo *q)
{
    int ahead = mf_engine_ahead(q->engine);
    return ahead < MF_MINIBATCHES ? ahead : MF_MINIBATCHES;
}

void mf_ppo_memory(const struct mf_ppo *q, size_t n, struct mf_memory *to)
{
    const struct mf_policy_spec *s = &q->policy->spec;
    const int ranks = mf_ranks_count(mf_engine_ranks(q->engine));
    size_t most = mf_minibatch_most(n, &q->opts),
           obs = mf_rows_shares(s, ranks) ? most * (size_t)s->net.O * sizeof(float) / (size_t)ranks : 0,
           sets = mf_minibatches_memory(n, s->net.D, &q->opts, q->width, mf_ppo_ahead(q));
    mf_optimizer_memory(&q->optimizer, to);
    to->of[MF_MEMORY_ROWS] += (double)(mf_rows_memory(s, mf_rfc_needs(&q->opts), n, ranks) + obs + sets);
    mf_engine_memory(q->engine, (double)(n * mf_rows_floats(s, ranks)), to);
    mf_plan_memory(q->full.plan, most, to);
    if (q->warmup.plan)
        mf_plan_memory(q->warmup.plan, most, to);
}

void mf_ppo_free(struct mf_ppo *q)
{
    if (!q)
        return;
    mf_plan_free(q->full.plan);
    mf_plan_free(q->warmup.plan);
    mf_graph_free(q->full.graph);
    mf_graph_free(q->warmup.graph);
    mf_optimizer_release(&q->optimizer);
    free(q);
}

unsigned mf_ppo_needs(const struct mf_ppo *q)
{
    return mf_rfc_needs(&q->opts);
}

struct mf_optimizer *mf_ppo_optimizer(struct mf_ppo *q)
{
    return &q->optimizer;
}

struct mf_ppo_stats mf_ppo_stats_none(void)
{
    return (struct mf_ppo_stats){.policy_loss = NAN,
                                 .value_loss = NAN,
                                 .entropy = NAN,
                                 .kl_k1 = NAN,
                                 .kl_k3 = NAN,
                                 .clip_fraction = NAN,
                                 .ratio_mean = NAN,
                                 .ratio_max = NAN,
                                 .clamped_fraction = NAN,
                                 .grad_norm = NAN,
                                 .critic_grad_norm = NAN,
                                 .explained_variance = NAN,
                                 .logratio_gap = NAN,
                                 .correction_max = NAN,
                                 .rfc_loss = NAN,
                                 .reflow_mask_ratio = NAN,
                                 .learning_rate = NAN};
}
