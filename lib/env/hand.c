#include "env/hand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/painter.h"

extern const char mf_hand_xml[];

enum { X, Y, Z, RZ, RY, RX, LEFT, RIGHT }; /* qpos, as in hand.xml; also ctrl */
enum { SUBSTEPS = 10 };

static const double OPEN = 0.04, LEASH = 0.03; /* m; leash: maximum distance of the setpoint from the hand */

static double clip(double x, double low, double high)
{
    return fmax(low, fmin(high, x));
}

/* ---- life ---- */

int mf_scene_open(void **scene, const char *name, const char *mjcf, struct mf_err *err)
{
    const struct mf_mjcf files[] = {{name, mjcf}, {"hand.xml", mf_hand_xml}, {NULL, NULL}};
    struct mf_scene *s = mf_xcalloc(1, sizeof *s);
    if (mf_mujoco_load(&s->m, files, err) || mf_cloud_new(&s->cloud, s->m, err)) {
        mf_scene_close(s);
        return err->code;
    }
    *scene = s;
    return 0;
}

void mf_scene_close(void *scene)
{
    struct mf_scene *s = scene;
    mf_cloud_free(s->cloud);
    mj_deleteModel(s->m);
    free(s);
}

int mf_hand_init(void **hand, const void *scene, int max_steps, struct mf_err *err)
{
    struct mf_hand *h = mf_xcalloc(1, sizeof *h);
    *h = (struct mf_hand){.scene = scene, .max_steps = max_steps};
    *hand = h;
    return mf_mujoco_data(&h->d, h->scene->m, err);
}

void mf_hand_release(void *hand)
{
    mj_deleteData(((struct mf_hand *)hand)->d);
    free(hand);
}

void mf_hand_clear(struct mf_hand *h)
{
    mj_resetData(h->scene->m, h->d);
    h->held = h->clock = 0;
    h->broken = false;
}

/* ---- motion ---- */

void mf_hand_place(struct mf_hand *h, struct mf_rng *rng)
{
    double *q = h->d->qpos;
    q[X] = mf_rng_range(rng, -0.03f, 0.03f);
    q[Y] = mf_rng_range(rng, -0.03f, 0.03f);
    q[Z] = mf_rng_range(rng, 0.11f, 0.15f);
    q[RZ] = mf_rng_range(rng, -0.1f, 0.1f);
    q[RY] = mf_rng_range(rng, -0.03f, 0.03f);
    q[RX] = mf_rng_range(rng, -0.03f, 0.03f);
    q[LEFT] = q[RIGHT] = OPEN;
    memcpy(h->set, q, sizeof h->set);
}

bool mf_hand_step(struct mf_hand *h, const float *action, const double low[3], const double high[3])
{
    static const double turn[] = {[RZ] = 1.2, [RY] = 0.3, [RX] = 0.3};
    static const int axis[] = {X, Y, Z, RX, RY, RZ}; /* of the action's first six */
    double *set = h->set, *q = h->d->qpos;
    for (int i = 0; i < 6; i++) {
        int j = axis[i];
        set[j] += clip(action[i], -1, 1) * (i < 3 ? 0.02 : 0.1);
        if (i < 3)
            set[j] = clip(set[j], q[j] - LEASH, q[j] + LEASH);
        set[j] = i < 3 ? clip(set[j], low[j], high[j]) : clip(set[j], -turn[j], turn[j]);
    }
    set[LEFT] = clip(set[LEFT] - 0.01 * clip(action[6], -1, 1), 0, OPEN);
    memcpy(h->d->ctrl, set, sizeof h->set);
    h->d->ctrl[RIGHT] = set[LEFT];
    h->broken = !mf_mujoco_step(h->scene->m, h->d, SUBSTEPS);
    return !h->broken;
}

/* ---- observation ---- */

/* q = Rz Ry Rx, in MuJoCo's order w x y z. */
struct mf_env_step mf_hand_judge(struct mf_hand *h, bool good, int hold)
{
    h->clock++;
    h->held = good ? h->held + 1 : 0;
    bool success = h->held >= hold;
    return (struct mf_env_step){.reward = success,
                                .terminated = success,
                                .truncated = !success && h->clock >= h->max_steps,
                                .success = success};
}

void mf_hand_quat(const struct mf_hand *h, double wxyz[4])
{
    static const double axis[3][3] = {{0, 0, 1}, {0, 1, 0}, {1, 0, 0}};
    double r[3][4], zy[4];
    for (int i = 0; i < 3; i++)
        mju_axisAngle2Quat(r[i], axis[i], h->d->qpos[RZ + i]);
    mju_mulQuat(zy, r[0], r[1]);
    mju_mulQuat(wxyz, zy, r[2]);
}

/* Everything is computed from qpos: MuJoCo's derived poses are one substep old after a step. */
void mf_hand_observe(const struct mf_hand *h, enum mf_hand_key key, const struct mf_obs *as, float *to)
{
    const double *q = h->d->qpos;
    double quat[4];
    if (key == MF_HAND_POS)
        to[0] = (float)q[X], to[1] = (float)q[Y], to[2] = (float)q[Z];
    if (key == MF_HAND_FINGERS)
        to[0] = (float)q[LEFT], to[1] = (float)-q[RIGHT];
    if (key == MF_HAND_CLOUD)
        mf_cloud_see(h->scene->cloud, h->d, MF_PICK_EVEN, as->dim[0], to);
    if (key == MF_HAND_QUAT) {
        mf_hand_quat(h, quat);
        for (int i = 0; i < 4; i++)
            to[i] = (float)quat[(i + 1) % 4];
    }
    for (int i = 0; h->broken && i < mf_obs_size(as); i++)
        to[i] = NAN;
}

/* ---- save and load ---- */

size_t mf_hand_state_size(const void *hand)
{
    const struct mf_hand *h = hand;
    return sizeof h->set + sizeof h->held + sizeof h->clock + mf_mujoco_state_size(h->scene->m);
}

void mf_hand_save(const void *hand, void *bytes)
{
    const struct mf_hand *h = hand;
    const int32_t counts[2] = {h->held, h->clock};
    char *at = bytes;
    memcpy(at, h->set, sizeof h->set);
    memcpy(at += sizeof h->set, counts, sizeof counts);
    mf_mujoco_save(h->scene->m, h->d, at + sizeof counts);
}

void mf_hand_load(void *hand, const void *bytes)
{
    struct mf_hand *h = hand;
    int32_t counts[2];
    const char *at = bytes;
    memcpy(h->set, at, sizeof h->set);
    memcpy(counts, at += sizeof h->set, sizeof counts);
    h->held = mf_env_count(counts[0]);
    h->clock = mf_env_count(counts[1]);
    h->broken = false;
    mf_mujoco_restore(h->scene->m, h->d, at + sizeof counts);
}

/* ---- experts ---- */

double mf_hand_yaw(const float *xyzw)
{
    return atan2(2 * (xyzw[3] * xyzw[2] + xyzw[0] * xyzw[1]), 1 - 2 * (xyzw[1] * xyzw[1] + xyzw[2] * xyzw[2]));
}

void mf_hand_steer(const float *quat, const double miss[3], double yaw, bool closes, struct mf_rng *rng, float *action)
{
    double wish[MF_HAND_ACTION] = {
        [3] = -0.4 / 0.1 * 2 * quat[0], -0.4 / 0.1 * 2 * quat[1], 0.4 / 0.1 * yaw, closes ? 1 : -1};
    for (int i = 0; i < 3; i++)
        wish[i] = 0.6 / 0.02 * miss[i];
    mf_rng_normal(rng, action, MF_HAND_ACTION);
    for (int i = 0; i < MF_HAND_ACTION; i++)
        action[i] = (float)clip(wish[i] + 0.15 * action[i], -1, 1);
}

/* ---- pictures ---- */

int mf_hand_paint(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err)
{
    static const struct mf_view view = {.lookat = {0, 0, 0.1}, .distance = 0.72, .azimuth = 140, .elevation = -28};
    struct mf_hand *h = state;
    struct mf_painter **p = (struct mf_painter **)painter;
    int rc = *p ? 0 : mf_painter_new(p, h->scene->m, MF_PAINT_VIDEO, width, height, err);
    if (rc || (rc = mf_painter_pose(*p, h->d, err)))
        return rc;
    mf_painter_draw(*p, &view, width, height, rgb);
    return 0;
}

/* The picture `name` in an observation; NULL: it was not asked for. */
static void *find(const struct mf_layout *l, const char *name, float *obs, int *side)
{
    for (int i = 0; i < l->n; obs += mf_obs_size(&l->key[i++]))
        if (!strcmp(l->key[i].name, name)) {
            *side = l->key[i].dim[0];
            return obs;
        }
    *side = 0;
    return NULL;
}

static bool has_poses(const struct mf_hand *h)
{
    for (int i = 0; i < h->scene->m->nq; i++)
        if (mju_isBad(h->d->qpos[i]))
            return false;
    return !h->broken;
}

/* What one camera sees: color and depth in one rendering where they have one size. */
static void look(const struct mf_hand *h, struct mf_painter *p, const char *const name[3], const struct mf_layout *l,
                 float *obs)
{
    int side, depth_side;
    uint8_t *rgb = find(l, name[1], obs, &side);
    float *depth = find(l, name[2], obs, &depth_side);
    const int camera = mj_name2id(h->scene->m, mjOBJ_CAMERA, name[0]);
    const bool together = side == depth_side;
    if (rgb)
        mf_painter_look(p, camera, side, rgb, together ? depth : NULL);
    if (depth && !(rgb && together))
        mf_painter_look(p, camera, depth_side, NULL, depth);
}

int mf_hand_picture(void *state, void **painter, const struct mf_layout *l, float *obs, struct mf_err *err)
{
    static const char *const eyes[][3] = {{"front", "agentview_image", "agentview_depth"},
                                          {"back", "backview_image", "backview_depth"},
                                          {"hand", "robot0_eye_in_hand_image", "robot0_eye_in_hand_depth"}};
    struct mf_hand *h = state;
    struct mf_painter **p = (struct mf_painter **)painter;
    const bool seen = has_poses(h);
    int rc, most = 0;
    for (int i = 0, at = 0; i < l->n; at += mf_obs_size(&l->key[i++])) {
        const struct mf_obs *o = &l->key[i];
        if (!mf_obs_is_picture(o))
            continue;
        most = o->dim[0] > most ? o->dim[0] : most;
        if (!seen)
            memset(obs + at, 0, (size_t)mf_obs_size(o) * sizeof *obs);
        obs[at + mf_obs_size(o) - 1] = 0; /* the bytes behind a packed picture */
    }
    if (most == 0 || !seen)
        return 0;
    if (!*p && (rc = mf_painter_new(p, h->scene->m, MF_PAINT_OBS, most, most, err)))
        return rc;
    if ((rc = mf_painter_pose(*p, h->d, err)))
        return rc;
    for (int i = 0; i < 3; i++)
        look(h, *p, eyes[i], l, obs);
    return 0;
}

void mf_hand_end_paint(void *painter)
{
    mf_painter_free(painter);
}
