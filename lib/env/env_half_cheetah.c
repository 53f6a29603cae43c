/* env_half_cheetah.c - Gymnasium's HalfCheetah-v5: a front and a back leg run forward; an episode has no early end. */
#include <math.h>

#include "env/gym.h"

enum { NQ = 9, NV = 9, NU = 6 };

static const struct mf_gym_task task = {.file = "half_cheetah.xml",
                                        .nq = NQ,
                                        .nv = NV,
                                        .nu = NU,
                                        .nbody = 8,
                                        .frame_skip = 5,
                                        .hidden = 1,
                                        .velocity_limit = INFINITY,
                                        .control_cost = 0.1,
                                        .noise = 0.1,
                                        .normal_velocities = true,
                                        .camera = 4};

static int open_model(void **model, const char *file, struct mf_err *err)
{
    return mf_gym_open(model, file, &task, err);
}

const struct mf_env mf_env_half_cheetah = {
    .name = "half_cheetah",
    .obs = {{"state", {NQ + NV - 1}, false}},
    .action_dim = NU,
    .control_hz = 20,
    .robomimic_name = "HalfCheetah-v5",
    .open = open_model,
    MF_GYM_FUNCTIONS,
};
