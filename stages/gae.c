/* mf-gae: add generalized advantage estimates and returns to every rollout. */
#include "rl/advantage.h"
#include "stage/stage.h"

static const struct mf_bind binds[] = {
    {"advantage.gamma", offsetof(struct mf_advantage, gamma)},
    {"advantage.gae_lambda", offsetof(struct mf_advantage, gae_lambda)},
    {"advantage.discount", offsetof(struct mf_advantage, discount)},
    {"advantage.reward", offsetof(struct mf_advantage, reward)},
    {"advantage.compat", offsetof(struct mf_advantage, compat)},
    {0},
};

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    int rc = mf_frame_kind(f) == MF_ROLLOUT ? mf_advantage_add(self, MF_GAE, f, err) : 0;
    return rc ? rc : mf_emit(run, f, err);
}

static const struct mf_stage stage = {
    .name = "gae",
    .summary = "Add generalized advantage estimates and returns to every rollout.",
    .examples = "  mf-collect | mf-gae advantage.gae_lambda=.9 | mf-ppo\n",
    .role = MF_FILTER,
    .binds = binds,
    .size = sizeof(struct mf_advantage),
    .frame = frame,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
