/* mujoco.h - MuJoCo 2.2.2 with errors as return values, shared by all MuJoCo environments.
 *
 * MuJoCo reports errors through global handlers that end the process, and resets a diverged simulation. Here both are
 * return values.
 */
#ifndef MF_ENV_MUJOCO_H
#define MF_ENV_MUJOCO_H

#include <stdbool.h>

#include <mujoco/mujoco.h>

#include "base/err.h"

struct mf_mjcf {
    const char *name, *text;
};

/* Compiles a model from MJCF texts: the model, then its included files, then a NULL name; or, if the first text is
 * NULL, from the file of that name. Release with mj_deleteModel. */
int mf_mujoco_load(mjModel **m, const struct mf_mjcf *files, struct mf_err *err);
int mf_mujoco_data(mjData **d, const mjModel *m, struct mf_err *err); /* release with mj_deleteData */

/* n calls of a function of MuJoCo. false: it reported an error, or bad positions, velocities or accelerations. */
bool mf_mujoco_call(void (*function)(const mjModel *m, mjData *d), const mjModel *m, mjData *d, int n);
bool mf_mujoco_step(const mjModel *m, mjData *d, int n); /* n steps of physics; false: likewise */

/* Brings the poses of bodies, geoms, cameras and lights in d up to date with qpos: after a step they are one substep
 * old. Changes no later step: kinematics normalise the quaternions in qpos, which are restored. */
void mf_mujoco_poses(const mjModel *m, mjData *d);

/* The complete state for bit-equal further steps: time, qpos, qvel, act, ctrl, qacc_warmstart, mocap poses. restore
 * also clears the warnings of a bad step; poses in d are stale until the next step. */
size_t mf_mujoco_state_size(const mjModel *m);
void mf_mujoco_save(const mjModel *m, const mjData *d, void *bytes);
void mf_mujoco_restore(const mjModel *m, mjData *d, const void *bytes);

#endif
