/* mujoco.h - MuJoCo 2.2.2 without its habit of ending the process: what every MuJoCo environment shares.
 *
 * MuJoCo reports through process-wide handlers, and resets a simulation that
 * diverged. Here an error or a diverged step is a return value.
 */
#ifndef MF_ENV_MUJOCO_H
#define MF_ENV_MUJOCO_H

#include <stdbool.h>

#include <mujoco/mujoco.h>

#include "base/err.h"

struct mf_mjcf {
    const char *name, *text;
};

/* Compile a model from MJCF texts: the model's, then those that it includes, then a NULL name; mj_deleteModel gives it
 * back. */
int mf_mujoco_load(mjModel **m, const struct mf_mjcf *files, struct mf_err *err);
int mf_mujoco_data(mjData **d, const mjModel *m, struct mf_err *err); /* mj_deleteData gives it back */

/* n steps of physics. false: MuJoCo reported an error, or positions, velocities or accelerations went bad. */
bool mf_mujoco_step(const mjModel *m, mjData *d, int n);

/* What determines the steps to come, bit by bit: time, qpos, qvel, act, ctrl, qacc_warmstart, mocap poses. restore
 * also clears what a bad step left behind; poses in d are stale until the next step. */
size_t mf_mujoco_state_size(const mjModel *m);
void mf_mujoco_save(const mjModel *m, const mjData *d, void *bytes);
void mf_mujoco_restore(const mjModel *m, mjData *d, const void *bytes);

#endif
