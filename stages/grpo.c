/* mf-grpo: add advantages relative to a group of episodes from the same initial state to every rollout. */
#include "flow/spec_keys.h"
#include "rl/group.h"
#include "stage/stage.h"

struct grpo {
    struct mf_group_opts opts;
    struct mf_group_counts all;
    bool warned;
};

static const struct mf_bind_table tables[] = {{mf_group_binds, offsetof(struct grpo, opts)}, {0}};

/* Once: a rollout from which nothing can be learned. */
static void warn(struct grpo *g, const struct mf_group_counts *c, int64_t iter)
{
    if (g->warned || (c->groups > c->single + c->equal && c->single == 0))
        return;
    g->warned = true;
    if (c->groups == 0)
        mf_log(MF_LOG_WARN,
               "iteration %lld: none of %lld groups has ended within the rollout, so no decision counts: raise "
               "training.num_steps_per_rollout",
               (long long)iter, (long long)c->cut);
    else if (c->single)
        mf_log(MF_LOG_WARN,
               "iteration %lld: %lld of %lld groups have one episode, whose advantage is 0: collect.group=8 makes "
               "groups of 8",
               (long long)iter, (long long)c->single, (long long)c->groups);
    else
        mf_log(MF_LOG_WARN,
               "iteration %lld: all %lld groups have equal scores, so all advantages are 0: another "
               "advantage.group_reward, more groups, or a task that the policy solves sometimes",
               (long long)iter, (long long)c->groups);
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct grpo *g = self;
    struct mf_group_counts now = {.groups = 0};
    if (mf_frame_kind(f) == MF_ROLLOUT) {
        int64_t iter;
        int rc = mf_group_add(&g->opts, f, &now, err);
        if (rc || (rc = mf_frame_get_int(f, "iter", &iter, err)))
            return rc;
        mf_frame_set_int(f, "groups.whole", now.groups);
        mf_frame_set_int(f, "groups.equal", now.equal);
        mf_frame_set_int(f, "groups.single", now.single);
        mf_frame_set_int(f, "groups.cut", now.cut);
        warn(g, &now, iter);
    }
    g->all.groups += now.groups;
    g->all.single += now.single;
    g->all.equal += now.equal;
    g->all.cut += now.cut;
    g->all.decisions += now.decisions;
    g->all.masked += now.masked;
    return mf_emit(run, f, err);
}

static int close_grpo(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    const struct mf_group_counts *c = &((struct grpo *)self)->all;
    (void)run, (void)err;
    if (rc == 0 && c->groups + c->cut > 0)
        mf_log(MF_LOG_INFO,
               "%lld groups, %lld of them with equal scores and %lld of one episode; %lld were cut by the end of their "
               "rollout, with %lld of %lld decisions",
               (long long)(c->groups + c->cut), (long long)c->equal, (long long)c->single, (long long)c->cut,
               (long long)c->masked, (long long)c->decisions);
    return 0;
}

static const struct mf_stage stage = {
    .name = "grpo",
    .summary = "Add advantages relative to a group of episodes from the same initial state to every rollout.",
    .examples =
        "  mf-collect collect.group=8 training.num_steps_per_rollout=40 policy.add_value_head=false | mf-grpo |\n"
        "    mf-ppo\n",
    .role = MF_FILTER,
    .tables = tables,
    .size = sizeof(struct grpo),
    .fits = mf_policy_head_fits,
    .frame = frame,
    .close = close_grpo,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
