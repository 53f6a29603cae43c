/* mf-sac: train the latent actor of a frozen flow off-policy (DSRL by SAC) and serve it to the collectors. */
#include "flow/spec_keys.h"
#include "learn/learner.h"

static const struct mf_bind_table tables[] = {
    MF_LEARNER_TABLES, {mf_sac_binds, offsetof(struct mf_learner, opts.sac)}, {0}};

static int open_sac(struct mf_run *run, void *self, struct mf_err *err)
{
    struct mf_learner *q = self;
    (void)run, (void)err;
    q->opts.algorithm = &mf_algorithm_sac;
    return 0;
}

static const struct mf_stage stage = {
    .name = "sac",
    .summary = "Train the latent actor of a frozen flow by SAC on replayed rounds (DSRL), and serve it.",
    .examples = "  mf-collect policy.checkpoint=clone.safetensors policy.steer=sac | mf-sac >metrics.mf\n",
    .role = MF_SINK,
    .metrics = true,
    .tables = tables,
    .size = sizeof(struct mf_learner),
    .fits = mf_policy_head_fits,
    .open = open_sac,
    .frame = mf_learner_frame,
    .ended = mf_learner_ended,
    .close = mf_learner_close,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
