/* env_ant.c - Gymnasium's Ant-v5: four legs of two joints run forward, and contacts cost.
 *
 * Both observations are those of version 5, in its order; policy.obs_keys=[state] leaves version 4's.
 */
#include <math.h>

#include "env/gym.h"

enum { NQ = 15, NV = 14, NU = 8, NBODY = 14 };
enum { Z = 2, HIDDEN = 2 };

static bool healthy(const double *qpos, const double *qvel)
{
    bool finite = true;
    for (int i = 0; i < NQ; i++)
        finite = finite && isfinite(qpos[i]);
    for (int i = 0; i < NV; i++)
        finite = finite && isfinite(qvel[i]);
    return finite && qpos[Z] >= 0.2 && qpos[Z] <= 1;
}

static const struct mf_gym_task task = {.file = "ant.xml",
                                        .nq = NQ,
                                        .nv = NV,
                                        .nu = NU,
                                        .nbody = NBODY,
                                        .frame_skip = 5,
                                        .hidden = HIDDEN,
                                        .velocity_limit = INFINITY,
                                        .healthy_reward = 1,
                                        .control_cost = 0.5,
                                        .contact_cost = 5e-4,
                                        .noise = 0.1,
                                        .normal_velocities = true,
                                        .camera = 5,
                                        .healthy = healthy};

static int open_model(void **model, const char *file, struct mf_err *err)
{
    return mf_gym_open(model, file, &task, err);
}

const struct mf_env mf_env_ant = {
    .name = "ant",
    .obs = {{"state", {NQ - HIDDEN + NV}, false}, {"forces", {6 * (NBODY - 1)}, false}},
    .action_dim = NU,
    .control_hz = 20,
    .robomimic_name = "Ant-v5",
    .open = open_model,
    MF_GYM_FUNCTIONS,
};
