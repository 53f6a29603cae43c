/* env_hopper.c - Gymnasium's Hopper-v5: a leg of three joints hops forward. */
#include <math.h>

#include "env/gym.h"

enum { NQ = 6, NV = 6, NU = 3 };
enum { Z = 1, ANGLE = 2 };

static bool healthy(const double *qpos, const double *qvel)
{
    bool within = true; /* but for x and z */
    for (int i = ANGLE; i < NQ; i++)
        within = within && fabs(qpos[i]) < 100;
    for (int i = 0; i < NV; i++)
        within = within && fabs(qvel[i]) < 100;
    return within && qpos[Z] > 0.7 && fabs(qpos[ANGLE]) < 0.2;
}

static const struct mf_gym_task task = {.file = "hopper.xml",
                                        .nq = NQ,
                                        .nv = NV,
                                        .nu = NU,
                                        .nbody = 5,
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

const struct mf_env mf_env_hopper = {
    .name = "hopper",
    .obs = {{"state", {NQ + NV - 1}, false}},
    .action_dim = NU,
    .control_hz = 125,
    .robomimic_name = "Hopper-v5",
    .open = open_model,
    MF_GYM_FUNCTIONS,
};
