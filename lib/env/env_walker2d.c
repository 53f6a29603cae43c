/* env_walker2d.c - Gymnasium's Walker2d-v5: two legs of three joints walk forward. */
#include <math.h>

#include "env/gym.h"

enum { NQ = 9, NV = 9, NU = 6 };
enum { Z = 1, ANGLE = 2 };

static bool healthy(const double *qpos, const double *qvel)
{
    (void)qvel;
    return qpos[Z] > 0.8 && qpos[Z] < 2 && fabs(qpos[ANGLE]) < 1;
}

static const struct mf_gym_task task = {.file = "walker2d_v5.xml",
                                        .nq = NQ,
                                        .nv = NV,
                                        .nu = NU,
                                        .nbody = 8,
                                        .frame_skip = 4,
                                        .hidden = 1,
                                        .velocity_limit = 10,
                                        .healthy_reward = 1,
                                        .control_cost = 1e-3,
                                        .noise = 5e-3,
                                        .camera = 4,
                                        .healthy = healthy};

static int open_model(void **model, const char *file, struct mf_err *err)
{
    return mf_gym_open(model, file, &task, err);
}

const struct mf_env mf_env_walker2d = {
    .name = "walker2d",
    .obs = {{"state", {NQ + NV - 1}, false}},
    .action_dim = NU,
    .control_hz = 125,
    .robomimic_name = "Walker2d-v5",
    .open = open_model,
    MF_GYM_FUNCTIONS,
};
