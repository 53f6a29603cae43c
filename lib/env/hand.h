/* hand.h - the gripper shared by MuJoCo tasks: hand.xml, its motion, observations and saved state.
 *
 *   action  hand position 3 (2 cm a step at 1), axis-angle 3 (.1 rad), gripper (> 0 closes, 1 cm)
 *
 * Actions move a setpoint; springs pull the hand towards it. A task's model includes hand.xml first: qpos begins with x
 * y z rz ry rx left right, followed by the task's objects.
 */
#ifndef MF_ENV_HAND_H
#define MF_ENV_HAND_H

#include "env/cloud.h"
#include "env/env.h"
#include "env/mujoco.h"

enum { MF_HAND_QPOS = 8, MF_HAND_ACTION = 7 };

/* Observation keys that a task lists after its own "object", in this order. */
enum mf_hand_key { MF_HAND_OBJECT, MF_HAND_POS, MF_HAND_QUAT, MF_HAND_FINGERS, MF_HAND_CLOUD, MF_HAND_PICTURES };
#define MF_HAND_CAMERA(name)                                                                                           \
    {name "_image", {84, 84, 3}, true},                                                                                \
    {                                                                                                                  \
        name "_depth", {84, 84, 1}, false                                                                              \
    }
#define MF_HAND_KEYS                                                                                                   \
    {"robot0_eef_pos", {3}, false}, {"robot0_eef_quat", {4}, false}, {"robot0_gripper_qpos", {2}, false},              \
        {"point_cloud", {1024, 6}, false}, MF_HAND_CAMERA("agentview"), MF_HAND_CAMERA("backview"),                    \
        MF_HAND_CAMERA("robot0_eye_in_hand")

/* An environment's model: read only, shared by all instances. */
struct mf_scene {
    mjModel *m;
    struct mf_cloud *cloud;
};
int mf_scene_open(void **scene, const char *name, const char *mjcf, struct mf_err *err);
void mf_scene_close(void *scene);

struct mf_hand { /* a task's whole state */
    const struct mf_scene *scene;
    mjData *d;
    double set[7];       /* the setpoint: x y z rz ry rx, and one for both fingers */
    int32_t held, clock; /* control steps with the goal condition met; control steps of the episode */
    int max_steps;
    bool broken; /* the simulation diverged */
};

/* The environment's functions of these names. */
int mf_hand_init(void **hand, const void *scene, int max_steps, struct mf_err *err);
void mf_hand_release(void *hand);
size_t mf_hand_state_size(const void *hand); /* the setpoint, the counts, the simulation */
void mf_hand_save(const void *hand, void *bytes);
void mf_hand_load(void *hand, const void *bytes);

void mf_hand_clear(struct mf_hand *h);                     /* start an episode */
void mf_hand_place(struct mf_hand *h, struct mf_rng *rng); /* above the centre of the table, open */
/* One control step, with the setpoint clamped to [low, high] (x y z). false: the simulation diverged. */
bool mf_hand_step(struct mf_hand *h, const float *action, const double low[3], const double high[3]);
/* The result of the step: success and reward 1 once the goal condition `good` has held for `hold` steps. */
struct mf_env_step mf_hand_judge(struct mf_hand *h, bool good, int hold);
void mf_hand_quat(const struct mf_hand *h, double wxyz[4]);
/* NaN if the simulation diverged; MF_HAND_OBJECT is up to the task. */
void mf_hand_observe(const struct mf_hand *h, enum mf_hand_key key, const struct mf_obs *as, float *to);

/* As the environment's members of these names. The model's cameras are named front, back and hand. */
int mf_hand_picture(void *state, void **painter, const struct mf_layout *l, float *obs, struct mf_err *err);
int mf_hand_paint(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err);
void mf_hand_end_paint(void *painter);

/* Members of a task's struct mf_env that the hand provides. */
#define MF_HAND_FUNCTIONS                                                                                              \
    .action_dim = MF_HAND_ACTION, .control_hz = 20, .close = mf_scene_close, .init = mf_hand_init,                     \
    .release = mf_hand_release, .state_size = mf_hand_state_size, .save = mf_hand_save, .load = mf_hand_load,          \
    .picture = mf_hand_picture, .paint = mf_hand_paint, .end_paint = mf_hand_end_paint

/* For a scripted expert: the noisy action that moves the hand by `miss` (m) and `yaw` (rad) and keeps it upright. quat:
 * of the hand, xyzw. */
void mf_hand_steer(const float *quat, const double miss[3], double yaw, bool closes, struct mf_rng *rng, float *action);
double mf_hand_yaw(const float *xyzw);

#endif
