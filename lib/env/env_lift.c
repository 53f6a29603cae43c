/* env_lift.c - lift a cube off a table with a gripper, in MuJoCo; observations and actions as robomimic's Lift.
 *
 *   object   cube position 3, its quaternion xyzw 4, gripper to cube 3; the other keys and the action are hand.h's
 *
 * Reward 1 when the cube was held high for HOLD steps.
 */
#include <math.h>
#include <string.h>

#include "env/hand.h"

extern const char mf_lift_xml[];

enum { X, Y, Z, CUBE = MF_HAND_QPOS }; /* qpos */
enum { HOLD = 5 };

static const double CUBE_HALF = 0.02, HIGH = 0.04; /* m */

static int open_model(void **model, const char *file, struct mf_err *err)
{
    (void)file;
    return mf_scene_open(model, "lift.xml", mf_lift_xml, err);
}

static void observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct mf_hand *h = state;
    const double *q = h->d->qpos, *cube = q + CUBE;
    if (key == MF_HAND_OBJECT)
        for (int i = 0; i < 4; i++) {
            to[3 + i] = (float)cube[3 + (i + 1) % 4];
            if (i < 3)
                to[i] = (float)cube[i], to[7 + i] = (float)(cube[i] - q[i]);
        }
    mf_hand_observe(h, (enum mf_hand_key)key, as, to);
}

static void reset(void *state, struct mf_rng *rng)
{
    struct mf_hand *h = state;
    double *cube = h->d->qpos + CUBE;
    mf_hand_clear(h);
    cube[X] = mf_rng_range(rng, -0.08f, 0.08f);
    cube[Y] = mf_rng_range(rng, -0.08f, 0.08f);
    cube[Z] = CUBE_HALF;
    mju_axisAngle2Quat(cube + 3, (double[]){0, 0, 1}, mf_rng_range(rng, -0.5f, 0.5f));
    mf_hand_place(h, rng);
}

static struct mf_env_step step(void *state, const float *action)
{
    static const double low[] = {-0.2, -0.2, 0.014}, high[] = {0.2, 0.2, 0.25};
    struct mf_hand *h = state;
    if (!mf_hand_step(h, action, low, high))
        return (struct mf_env_step){.terminated = true};
    return mf_hand_judge(h, h->d->qpos[CUBE + Z] > CUBE_HALF + HIGH, HOLD);
}

/* ---- the scripted expert: hover and align, descend, close, lift, with a miscalibrated sensor ---- */

enum lift_phase { START, HOVER, DESCEND, CLOSE, LIFT };

struct lift_expert {
    int32_t phase, closing;
    float aim[4]; /* error of this episode: x y z yaw */
};

static void begin(struct lift_expert *e, float error, struct mf_rng *rng)
{
    static const float miscalibrated[4] = {0.0185f, 0.012f, 0.012f, 0.2f}, spread[4] = {0.005f, 0.005f, 0.0025f, 0.1f};
    mf_rng_normal(rng, e->aim, 4);
    for (int i = 0; i < 4; i++)
        e->aim[i] = error * (miscalibrated[i] + spread[i] * e->aim[i]);
    e->phase = HOVER;
}

static void advance(struct lift_expert *e, const double miss[3], double yaw)
{
    double xy = hypot(miss[X], miss[Y]);
    if (e->phase == HOVER && xy < 0.012 && fabs(yaw) < 0.15)
        e->phase = DESCEND;
    else if (e->phase == DESCEND && fabs(miss[Z]) < 0.006 && xy < 0.010)
        e->phase = CLOSE;
    else if (e->phase == CLOSE && ++e->closing == 6)
        e->phase = LIFT;
}

static void expert(const void *state, void *memory, float error, struct mf_rng *rng, const float *obs, float *action)
{
    (void)state;
    struct lift_expert *e = memory;
    const float *cube = obs, *hand = obs + 10, *quat = obs + 13;
    if (e->phase == START)
        begin(e, error, rng);
    double miss[3], yaw = remainder(mf_hand_yaw(cube + 3) + e->aim[3] - mf_hand_yaw(quat), M_PI_2);
    for (int i = 0; i < 3; i++)
        miss[i] = cube[i] + e->aim[i] - hand[i];
    advance(e, miss, yaw);
    if (e->phase == HOVER)
        miss[Z] += 0.06;
    if (e->phase == LIFT)
        miss[X] = miss[Y] = yaw = 0, miss[Z] = 0.05;
    mf_hand_steer(quat, miss, yaw, e->phase >= CLOSE, rng, action);
}

const struct mf_env mf_env_lift = {
    .name = "lift",
    .obs = {{"object", {10}, false}, MF_HAND_KEYS},
    .max_steps = 60,
    .robomimic_name = "Lift",
    .open = open_model,
    .reset = reset,
    .step = step,
    .observe = observe,
    .expert_size = sizeof(struct lift_expert),
    .expert = expert,
    MF_HAND_FUNCTIONS,
};
