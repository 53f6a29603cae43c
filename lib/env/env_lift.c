/* env_lift.c - lift a cube off a table with a gripper, in MuJoCo; observations and actions as robomimic's Lift.
 *
 *   obs     cube position 3, its quaternion xyzw 4, gripper to cube 3 | hand position 3 | its quaternion 4 | fingers 2
 *   action  hand position 3 (2 cm a step at 1), axis-angle 3 (.1 rad), gripper (> 0 closes, 1 cm)
 *
 * Actions move a setpoint, which springs pull the hand to. Reward 1 when the cube was held high for HOLD steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/env.h"
#include "env/mujoco.h"

extern const char mf_lift_xml[];

enum { X, Y, Z, RZ, RY, RX, LEFT, RIGHT, CUBE, NQ = CUBE + 7 }; /* qpos, as in lift.xml; up to RIGHT also ctrl */
enum { OBJECT, EEF_POS, EEF_QUAT, FINGERS };                    /* keys of the observation */
enum { ACTION = 7 };
enum { SUBSTEPS = 10, HOLD = 5 };

static const double CUBE_HALF = 0.02, HIGH = 0.04, OPEN = 0.04; /* m */
static const double LEASH = 0.03;                               /* m the setpoint may run ahead of the hand */

struct task {
    double set[LEFT + 1]; /* the setpoint: x y z rz ry rx, and one for both fingers */
    int32_t held, clock;
};

struct lift {
    const mjModel *m;
    mjData *d;
    struct task task;
    int max_steps;
    bool broken; /* the simulation diverged: nothing to see */
};

static double clip(double x, double low, double high)
{
    return fmax(low, fmin(high, x));
}

static int open_model(void **model, struct mf_err *err)
{
    mjModel *m;
    int rc = mf_mujoco_load(&m, "lift.xml", mf_lift_xml, err);
    if (rc == 0)
        *model = m;
    return rc;
}

static void close_model(void *model)
{
    mj_deleteModel(model);
}

static int init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    struct lift *l = mf_xcalloc(1, sizeof *l);
    l->m = model;
    l->max_steps = max_steps;
    *state = l;
    return mf_mujoco_data(&l->d, model, err);
}

static void release(void *state)
{
    struct lift *l = state;
    mj_deleteData(l->d);
    free(l);
}

/* q = Rz Ry Rx, in MuJoCo's order w x y z. */
static void hand_quat(const double *qpos, double q[4])
{
    static const double axis[3][3] = {{0, 0, 1}, {0, 1, 0}, {1, 0, 0}};
    double r[3][4], zy[4];
    for (int i = 0; i < 3; i++)
        mju_axisAngle2Quat(r[i], axis[i], qpos[RZ + i]);
    mju_mulQuat(zy, r[0], r[1]);
    mju_mulQuat(q, zy, r[2]);
}

/* All of it comes from qpos: the poses that MuJoCo keeps beside it are one substep old after a step. */
static void observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct lift *l = state;
    const double *q = l->d->qpos;
    double hand[4];
    switch (key) {
    case OBJECT:
        for (int i = 0; i < 7; i++)
            to[i] = (float)q[CUBE + (i < 3 ? i : 3 + (i - 2) % 4)];
        for (int i = 0; i < 3; i++)
            to[7 + i] = (float)(q[CUBE + i] - q[X + i]);
        break;
    case EEF_POS:
        for (int i = 0; i < 3; i++)
            to[i] = (float)q[X + i];
        break;
    case EEF_QUAT:
        hand_quat(q, hand);
        for (int i = 0; i < 4; i++)
            to[i] = (float)hand[(i + 1) % 4];
        break;
    case FINGERS:
        to[0] = (float)q[LEFT];
        to[1] = (float)-q[RIGHT];
    }
    for (int i = 0; l->broken && i < mf_obs_size(as); i++)
        to[i] = NAN;
}

static void reset(void *state, struct mf_rng *rng)
{
    struct lift *l = state;
    mj_resetData(l->m, l->d);
    double *q = l->d->qpos, *set = l->task.set;
    float yaw;
    q[CUBE + X] = mf_rng_range(rng, -0.08f, 0.08f);
    q[CUBE + Y] = mf_rng_range(rng, -0.08f, 0.08f);
    q[CUBE + Z] = CUBE_HALF;
    yaw = mf_rng_range(rng, -0.5f, 0.5f);
    mju_axisAngle2Quat(q + CUBE + 3, (double[]){0, 0, 1}, yaw);
    q[X] = mf_rng_range(rng, -0.03f, 0.03f);
    q[Y] = mf_rng_range(rng, -0.03f, 0.03f);
    q[Z] = mf_rng_range(rng, 0.11f, 0.15f);
    q[RZ] = mf_rng_range(rng, -0.1f, 0.1f);
    q[RY] = mf_rng_range(rng, -0.03f, 0.03f);
    q[RX] = mf_rng_range(rng, -0.03f, 0.03f);
    q[LEFT] = q[RIGHT] = OPEN;
    memcpy(set, q, sizeof l->task.set);
    l->task.held = l->task.clock = 0;
    l->broken = false;
}

static void move_setpoint(struct lift *l, const float *action)
{
    static const double low[] = {-0.2, -0.2, 0.014, -1.2, -0.3, -0.3}, high[] = {0.2, 0.2, 0.25, 1.2, 0.3, 0.3};
    static const int axis[] = {X, Y, Z, RX, RY, RZ}; /* of the action's first six */
    double *set = l->task.set, *q = l->d->qpos;
    for (int i = 0; i < 6; i++) {
        int j = axis[i];
        set[j] += clip(action[i], -1, 1) * (i < 3 ? 0.02 : 0.1);
        if (i < 3)
            set[j] = clip(set[j], q[j] - LEASH, q[j] + LEASH);
        set[j] = clip(set[j], low[j], high[j]);
    }
    set[LEFT] = clip(set[LEFT] - 0.01 * clip(action[6], -1, 1), 0, OPEN);
    memcpy(l->d->ctrl, set, sizeof l->task.set);
    l->d->ctrl[RIGHT] = set[LEFT];
}

static struct mf_step step(void *state, const float *action)
{
    struct lift *l = state;
    move_setpoint(l, action);
    if ((l->broken = !mf_mujoco_step(l->m, l->d, SUBSTEPS)))
        return (struct mf_step){.terminated = true};
    struct task *t = &l->task;
    t->clock++;
    t->held = l->d->qpos[CUBE + Z] > CUBE_HALF + HIGH ? t->held + 1 : 0;
    bool success = t->held >= HOLD;
    return (struct mf_step){.reward = success,
                            .terminated = success,
                            .truncated = !success && t->clock >= l->max_steps,
                            .success = success};
}

static size_t state_size(const void *state)
{
    return sizeof(struct task) + mf_mujoco_state_size(((const struct lift *)state)->m);
}

static void save(const void *state, void *bytes)
{
    const struct lift *l = state;
    memcpy(bytes, &l->task, sizeof l->task);
    mf_mujoco_save(l->m, l->d, (char *)bytes + sizeof l->task);
}

static void load(void *state, const void *bytes)
{
    struct lift *l = state;
    memcpy(&l->task, bytes, sizeof l->task);
    mf_mujoco_restore(l->m, l->d, (const char *)bytes + sizeof l->task);
    l->broken = false;
}

/* ---- the scripted expert: hover and align, descend, close, lift, all by a miscalibrated eye ---- */

enum phase { START, HOVER, DESCEND, CLOSE, LIFT };

struct expert {
    int32_t phase, closing;
    float aim[4]; /* this episode's own error: x y z yaw */
};

static double yaw_of(const float *xyzw)
{
    return atan2(2 * (xyzw[3] * xyzw[2] + xyzw[0] * xyzw[1]), 1 - 2 * (xyzw[1] * xyzw[1] + xyzw[2] * xyzw[2]));
}

static void begin(struct expert *e, struct mf_rng *rng)
{
    static const float miscalibrated[4] = {0.0185f, 0.012f, 0.012f, 0.2f}, spread[4] = {0.005f, 0.005f, 0.0025f, 0.1f};
    mf_rng_normal(rng, e->aim, 4);
    for (int i = 0; i < 4; i++)
        e->aim[i] = miscalibrated[i] + spread[i] * e->aim[i];
    e->phase = HOVER;
}

static void advance(struct expert *e, const double miss[3], double yaw)
{
    double xy = hypot(miss[X], miss[Y]);
    if (e->phase == HOVER && xy < 0.012 && fabs(yaw) < 0.15)
        e->phase = DESCEND;
    else if (e->phase == DESCEND && fabs(miss[Z]) < 0.006 && xy < 0.010)
        e->phase = CLOSE;
    else if (e->phase == CLOSE && ++e->closing == 6)
        e->phase = LIFT;
}

static void expert(const void *state, void *memory, struct mf_rng *rng, const float *obs, float *action)
{
    (void)state;
    struct expert *e = memory;
    const float *cube = obs, *hand = obs + 10, *quat = obs + 13;
    if (e->phase == START)
        begin(e, rng);
    double miss[3], yaw = remainder(yaw_of(cube + 3) + e->aim[3] - yaw_of(quat), M_PI_2);
    for (int i = 0; i < 3; i++)
        miss[i] = cube[i] + e->aim[i] - hand[i];
    advance(e, miss, yaw);
    if (e->phase == HOVER)
        miss[Z] += 0.06;
    mf_rng_normal(rng, action, ACTION);
    double wish[ACTION] = {[3] = -0.4 / 0.1 * 2 * quat[0], -0.4 / 0.1 * 2 * quat[1], 0.4 / 0.1 * yaw};
    for (int i = 0; i < 3; i++)
        wish[i] = 0.6 / 0.02 * miss[i];
    if (e->phase == LIFT)
        wish[0] = wish[1] = wish[5] = 0, wish[2] = 1.5;
    wish[6] = e->phase >= CLOSE ? 1 : -1;
    for (int i = 0; i < ACTION; i++)
        action[i] = (float)clip(wish[i] + 0.15 * action[i], -1, 1);
}

const struct mf_env mf_env_lift = {
    .name = "lift",
    .obs = {{"object", {10}}, {"robot0_eef_pos", {3}}, {"robot0_eef_quat", {4}}, {"robot0_gripper_qpos", {2}}},
    .action_dim = ACTION,
    .max_steps = 60,
    .control_hz = 20,
    .robomimic_name = "Lift",
    .open = open_model,
    .close = close_model,
    .init = init,
    .release = release,
    .reset = reset,
    .step = step,
    .observe = observe,
    .state_size = state_size,
    .save = save,
    .load = load,
    .expert_size = sizeof(struct expert),
    .expert = expert,
};
