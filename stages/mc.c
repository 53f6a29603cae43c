/* mf-mc: add Monte Carlo returns, and advantages over the values, to every rollout. */
#include "rl/advantage.h"
#include "stage/stage.h"

static const struct mf_bind binds[] = {
    {"advantage.gamma", offsetof(struct mf_advantage, gamma)},
    {"advantage.discount", offsetof(struct mf_advantage, discount)},
    {"advantage.reward", offsetof(struct mf_advantage, reward)},
    {"advantage.compat", offsetof(struct mf_advantage, compat)},
    {0},
};

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    int rc = mf_frame_kind(f) == MF_ROLLOUT ? mf_advantage_add(self, MF_MC, f, err) : 0;
    return rc ? rc : mf_emit(run, f, err);
}

static const struct mf_stage stage = {
    .name = "mc",
    .summary = "Add Monte Carlo returns, and advantages over the values, to every rollout.",
    .examples = "  mf-collect | mf-mc | mf-ppo\n",
    .role = MF_FILTER,
    .binds = binds,
    .size = sizeof(struct mf_advantage),
    .frame = frame,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
