/* mf-ppo: improve the policy on every round of rollouts and serve it to the collectors. */
#include "flow/spec_keys.h"
#include "learn/learner.h"

static const struct mf_bind_table tables[] = {MF_LEARNER_TABLES,
                                              {mf_noise_binds, offsetof(struct mf_learner, opts.noise)},
                                              {mf_ppo_binds, offsetof(struct mf_learner, opts.ppo)},
                                              {0}};

static int open_ppo(struct mf_run *run, void *self, struct mf_err *err)
{
    struct mf_learner *q = self;
    (void)run, (void)err;
    q->opts.algorithm = &mf_algorithm_ppo;
    return 0;
}

static const struct mf_stage stage = {
    .name = "ppo",
    .summary = "Improve the flow policy by PPO on every round, and serve it to the collectors.",
    .examples = "  mf-collect policy.checkpoint=clone.safetensors | mf-gae | mf-ppo >metrics.mf\n"
                "  mf-collect policy.checkpoint=clone.safetensors | mf-gae | mpirun -n 4 mf-ppo >metrics.mf\n"
                "  mf-replay rollouts.hdf5 | mf-gae | mf-ppo policy.checkpoint=clone.safetensors run.dir=again\n",
    .role = MF_SINK,
    .metrics = true,
    .ranks = true,
    .tables = tables,
    .size = sizeof(struct mf_learner),
    .fits = mf_policy_head_fits,
    .open = open_ppo,
    .frame = mf_learner_frame,
    .ended = mf_learner_ended,
    .close = mf_learner_close,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
