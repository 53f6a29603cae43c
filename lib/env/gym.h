/* gym.h - the locomotion tasks of Gymnasium's MuJoCo environments, version 5: observation, reward, end and start.
 *
 *   state    positions but for the first `hidden`, then velocities, within +-velocity_limit
 *   forces   contact forces and torques on each body (external, in its frame), within +-1; of tasks that count them
 *   action   torques of the motors
 *
 * reward = distance / time + healthy_reward if healthy - control_cost |action|^2 - contact_cost |forces|^2
 *
 * An episode ends where the robot is not healthy. The model is Gymnasium's file (env.model), which is not built in.
 */
#ifndef MF_ENV_GYM_H
#define MF_ENV_GYM_H

#include "env/env.h"
#include "env/mujoco.h"

struct mf_gym_task {
    const char *file;       /* the model's name in Gymnasium */
    int nq, nv, nu, nbody;  /* its shape */
    int frame_skip;         /* steps of physics in a control step */
    int hidden;             /* positions that are not observed: x, or x and y */
    double velocity_limit;  /* m/s, rad/s */
    double healthy_reward;  /* a control step */
    double control_cost;    /* a control step, of |action|^2 */
    double contact_cost;    /* a control step, of |forces|^2; 0: forces are not counted */
    double noise;           /* of the start: positions uniform within +-noise, velocities too */
    bool normal_velocities; /* or normal, with this standard deviation */
    double camera;          /* of a video: distance, m */
    bool (*healthy)(const double *qpos, const double *qvel); /* NULL: always */
};

/* The environment's functions of these names; file: env.model. */
int mf_gym_open(void **model, const char *file, const struct mf_gym_task *task, struct mf_err *err);
void mf_gym_close(void *model);
int mf_gym_init(void **state, const void *model, int max_steps, struct mf_err *err);
void mf_gym_release(void *state);
void mf_gym_reset(void *state, struct mf_rng *rng);
struct mf_env_step mf_gym_step(void *state, const float *action);
void mf_gym_observe(void *state, int key, const struct mf_obs *as, float *to);
size_t mf_gym_state_size(const void *state);
void mf_gym_save(const void *state, void *bytes);
void mf_gym_load(void *state, const void *bytes);
int mf_gym_paint(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err);
void mf_gym_end_paint(void *painter);

/* Members of a task's struct mf_env that are common. */
#define MF_GYM_FUNCTIONS                                                                                               \
    .max_steps = 1000, .by_file = true, .close = mf_gym_close, .init = mf_gym_init, .release = mf_gym_release,         \
    .reset = mf_gym_reset, .step = mf_gym_step, .observe = mf_gym_observe, .state_size = mf_gym_state_size,            \
    .save = mf_gym_save, .load = mf_gym_load, .paint = mf_gym_paint, .end_paint = mf_gym_end_paint

#endif
