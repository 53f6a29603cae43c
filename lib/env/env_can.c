/* env_can.c - take a can out of one bin and put it into the other, in MuJoCo; observations and actions as robomimic's
 * Can.
 *
 *   object   can position 3, its quaternion xyzw 4, its position and quaternion in the hand's frame 3 + 4; the other
 *            keys and the action are hand.h's
 *
 * Reward 1 when the can has stood in the empty bin, out of the hand, for HOLD steps.
 */
#include <math.h>
#include <string.h>

#include "env/hand.h"

extern const char mf_can_xml[];

enum { X, Y, Z, CAN = MF_HAND_QPOS }; /* qpos */
enum { HOLD = 3 };

static const double CAN_HALF = 0.03, FROM[2] = {0, -0.13}, TO[2] = {0, 0.13}; /* m; the bins' middles */
static const double TO_HALF = 0.07, LOW = 0.015, AWAY = 0.05;                 /* inside of the empty bin; success */

static int open_model(void **model, const char *file, struct mf_err *err)
{
    (void)file;
    return mf_scene_open(model, "can.xml", mf_can_xml, err);
}

static void observe_can(const struct mf_hand *h, float *to)
{
    const double *q = h->d->qpos, *can = q + CAN;
    double hand[4], back[4], way[3], at[3], turn[4];
    mf_hand_quat(h, hand);
    mju_negQuat(back, hand);
    mju_sub3(way, can, q);
    mju_rotVecQuat(at, way, back);
    mju_mulQuat(turn, back, can + 3);
    for (int i = 0; i < 3; i++)
        to[i] = (float)can[i], to[7 + i] = (float)at[i];
    for (int i = 0; i < 4; i++)
        to[3 + i] = (float)can[3 + (i + 1) % 4], to[10 + i] = (float)turn[(i + 1) % 4];
}

static void observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct mf_hand *h = state;
    if (key == MF_HAND_OBJECT)
        observe_can(h, to);
    mf_hand_observe(h, (enum mf_hand_key)key, as, to);
}

static void reset(void *state, struct mf_rng *rng)
{
    struct mf_hand *h = state;
    double *can = h->d->qpos + CAN;
    mf_hand_clear(h);
    can[X] = FROM[X] + (double)mf_rng_range(rng, -0.045f, 0.045f);
    can[Y] = FROM[Y] + (double)mf_rng_range(rng, -0.045f, 0.045f);
    can[Z] = CAN_HALF;
    mju_axisAngle2Quat(can + 3, (double[]){0, 0, 1}, (double)mf_rng_range(rng, -3.14f, 3.14f));
    mf_hand_place(h, rng);
}

/* In the empty bin, down, and not between the fingers. */
static bool placed(const struct mf_hand *h)
{
    const double *q = h->d->qpos, *can = q + CAN;
    double way[3];
    mju_sub3(way, can, q);
    return fabs(can[X] - TO[X]) < TO_HALF && fabs(can[Y] - TO[Y]) < TO_HALF && can[Z] < CAN_HALF + LOW &&
           mju_norm3(way) > AWAY;
}

static struct mf_env_step step(void *state, const float *action)
{
    static const double low[] = {-0.2, -0.25, 0.014}, high[] = {0.2, 0.25, 0.25};
    struct mf_hand *h = state;
    if (!mf_hand_step(h, action, low, high))
        return (struct mf_env_step){.terminated = true};
    return mf_hand_judge(h, placed(h), HOLD);
}

/* ---- the scripted expert: take, lift, carry, lower, let go, with a miscalibrated sensor and without correction
 * ---- */

enum can_phase { START, HOVER, DESCEND, CLOSE, LIFT, CARRY, LOWER, OPEN, LEAVE };

struct can_expert {
    int32_t phase, waited;
    float aim[5]; /* error of this episode: x y z of the can, x y of the bin */
};

static void begin(struct can_expert *e, float error, struct mf_rng *rng)
{
    static const float miscalibrated[5] = {0.012f, 0.008f, 0.010f, 0.02f, 0.03f},
                       spread[5] = {0.005f, 0.005f, 0.004f, 0.02f, 0.02f};
    mf_rng_normal(rng, e->aim, 5);
    for (int i = 0; i < 5; i++)
        e->aim[i] = error * (miscalibrated[i] + spread[i] * e->aim[i]);
    e->phase = HOVER;
}

/* miss: from the hand to the can; way: to the place above the bin. */
static void advance(struct can_expert *e, const double miss[3], const double way[3])
{
    const double to_can = hypot(miss[X], miss[Y]), to_bin = hypot(way[X], way[Y]);
    const bool done[] = {
        [HOVER] = to_can < 0.012, [DESCEND] = to_can < 0.010 && fabs(miss[Z]) < 0.006, [CLOSE] = e->waited == 5,
        [LIFT] = way[Z] < 0.01,   [CARRY] = to_bin<0.015, [LOWER] = way[Z]> 0.07,      [OPEN] = e->waited == 3,
        [LEAVE] = false};
    e->waited++;
    if (done[e->phase])
        e->phase++, e->waited = 0;
}

static void expert(const void *state, void *memory, float error, struct mf_rng *rng, const float *obs, float *action)
{
    (void)state;
    struct can_expert *e = memory;
    const float *can = obs, *hand = obs + 14, *quat = obs + 17;
    if (e->phase == START)
        begin(e, error, rng);
    double miss[3], way[3] = {TO[X] + e->aim[3] - hand[X], TO[Y] + e->aim[4] - hand[Y], 0.13 - hand[Z]};
    for (int i = 0; i < 3; i++)
        miss[i] = can[i] + e->aim[i] - hand[i];
    advance(e, miss, way);
    if (e->phase == HOVER)
        miss[Z] += 0.07;
    else if (e->phase == CARRY)
        memcpy(miss, way, sizeof miss);
    else if (e->phase >= LIFT)
        miss[X] = miss[Y] = 0, miss[Z] = e->phase == LOWER ? -0.03 : e->phase == OPEN ? 0 : 0.04;
    mf_hand_steer(quat, miss, -mf_hand_yaw(quat), e->phase >= CLOSE && e->phase < OPEN, rng, action);
}

const struct mf_env mf_env_can = {
    .name = "can",
    .obs = {{"object", {14}, false}, MF_HAND_KEYS},
    .max_steps = 100,
    .robomimic_name = "PickPlaceCan",
    .open = open_model,
    .reset = reset,
    .step = step,
    .observe = observe,
    .expert_size = sizeof(struct can_expert),
    .expert = expert,
    MF_HAND_FUNCTIONS,
};
