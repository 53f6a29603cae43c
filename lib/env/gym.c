#include "env/gym.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "env/painter.h"

enum { TORSO = 1 }; /* the body that moves forward */

struct model {
    mjModel *m;
    const struct mf_gym_task *task;
};

struct gym {
    const mjModel *m;
    const struct mf_gym_task *task;
    mjData *d;
    double x; /* of the torso, m */
    int32_t clock;
    int max_steps;
    bool broken; /* the simulation diverged */
};

static double clip(double x, double limit)
{
    return fmax(-limit, fmin(limit, x));
}

/* ---- life ---- */

static int load_model(mjModel **m, const char *file, const struct mf_gym_task *t, struct mf_err *err)
{
    if (!file)
        return mf_err_set(
            err, MF_EUSAGE,
            "this environment needs env.model=PATH/%s, Gymnasium's model: 'pip install --no-deps --target "
            "mjcf gymnasium' puts it into mjcf/gymnasium/envs/mujoco/assets",
            t->file);
    FILE *f = mf_file_read(file, err);
    if (!f)
        return mf_err_at(err, "env.model");
    fclose(f);
    int rc = mf_mujoco_load(m, (const struct mf_mjcf[]){{file, NULL}}, err);
    if (rc || ((*m)->nq == t->nq && (*m)->nv == t->nv && (*m)->nu == t->nu && (*m)->nbody == t->nbody))
        return rc;
    return mf_err_set(
        err, MF_EUSAGE,
        "env.model=%.300s has %d positions, %d velocities, %d motors and %d bodies, and Gymnasium's %s has "
        "%d, %d, %d and %d: give the model of the task",
        file, (*m)->nq, (*m)->nv, (*m)->nu, (*m)->nbody, t->file, t->nq, t->nv, t->nu, t->nbody);
}

int mf_gym_open(void **model, const char *file, const struct mf_gym_task *task, struct mf_err *err)
{
    struct model *o = mf_xcalloc(1, sizeof *o);
    o->task = task;
    int rc = load_model(&o->m, file, task, err);
    if (rc)
        mf_gym_close(o);
    else
        *model = o;
    return rc;
}

void mf_gym_close(void *model)
{
    struct model *o = model;
    mj_deleteModel(o->m);
    free(o);
}

int mf_gym_init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    const struct model *o = model;
    struct gym *g = mf_xcalloc(1, sizeof *g);
    *g = (struct gym){.m = o->m, .task = o->task, .max_steps = max_steps};
    *state = g;
    return mf_mujoco_data(&g->d, g->m, err);
}

void mf_gym_release(void *state)
{
    mj_deleteData(((struct gym *)state)->d);
    free(state);
}

/* ---- motion ---- */

/* Ant's x is that of a body, which MuJoCo knows from within its last step of physics; the others' is a position. */
static double where(const struct gym *g)
{
    return g->task->contact_cost > 0 ? g->d->xpos[3 * TORSO] : g->d->qpos[0];
}

void mf_gym_reset(void *state, struct mf_rng *rng)
{
    struct gym *g = state;
    const struct mf_gym_task *t = g->task;
    const float noise = (float)t->noise;
    mj_resetData(g->m, g->d);
    for (int i = 0; i < t->nq; i++)
        g->d->qpos[i] += mf_rng_range(rng, -noise, noise);
    for (int i = 0; i < t->nv; i++) {
        float v = 0;
        mf_rng_normal(rng, &v, t->normal_velocities);
        g->d->qvel[i] = t->normal_velocities ? noise * v : mf_rng_range(rng, -noise, noise);
    }
    g->broken = !mf_mujoco_call(mj_forward, g->m, g->d, 1);
    g->x = where(g);
    g->clock = 0;
}

static bool move(struct gym *g, const float *action, double *effort)
{
    *effort = 0;
    for (int i = 0; i < g->m->nu; i++) {
        const double a = clip(action[i], 1);
        g->d->ctrl[i] = a;
        *effort += a * a;
    }
    return mf_mujoco_step(g->m, g->d, g->task->frame_skip) &&
           (g->task->contact_cost == 0 || mf_mujoco_call(mj_rnePostConstraint, g->m, g->d, 1));
}

static double force(const struct gym *g, int i)
{
    return clip(g->d->cfrc_ext[i], 1);
}

struct mf_env_step mf_gym_step(void *state, const float *action)
{
    struct gym *g = state;
    const struct mf_gym_task *t = g->task;
    const double before = g->x;
    double effort, contact = 0;
    g->clock++;
    g->broken = !move(g, action, &effort);
    if (g->broken)
        return (struct mf_env_step){.terminated = true};
    g->x = where(g);
    for (int i = 0; t->contact_cost > 0 && i < 6 * t->nbody; i++)
        contact += force(g, i) * force(g, i);
    const bool healthy = !t->healthy || t->healthy(g->d->qpos, g->d->qvel);
    const double reward = (g->x - before) / (t->frame_skip * g->m->opt.timestep) + healthy * t->healthy_reward -
                          t->control_cost * effort - t->contact_cost * contact;
    return (struct mf_env_step){
        .reward = (float)reward, .terminated = !healthy, .truncated = healthy && g->clock >= g->max_steps};
}

/* ---- observation ---- */

void mf_gym_observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct gym *g = state;
    const int n = mf_obs_size(as), seen = g->task->nq - g->task->hidden;
    for (int i = 0; i < n; i++)
        if (g->broken)
            to[i] = NAN;
        else if (key > 0)
            to[i] = (float)force(g, 6 * TORSO + i);
        else
            to[i] = (float)(i < seen ? g->d->qpos[g->task->hidden + i]
                                     : clip(g->d->qvel[i - seen], g->task->velocity_limit));
}

int mf_gym_paint(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err)
{
    struct gym *g = state;
    struct mf_painter **p = (struct mf_painter **)painter;
    const struct mf_view view = {.lookat = {g->d->qpos[0], g->task->hidden > 1 ? g->d->qpos[1] : 0, 0.8},
                                 .distance = g->task->camera,
                                 .azimuth = 90,
                                 .elevation = -15};
    int rc = *p ? 0 : mf_painter_new(p, g->m, MF_PAINT_VIDEO, width, height, err);
    if (rc || (rc = mf_painter_pose(*p, g->d, err)))
        return rc;
    mf_painter_draw(*p, &view, width, height, rgb);
    return 0;
}

void mf_gym_end_paint(void *painter)
{
    mf_painter_free(painter);
}

/* ---- save and load: x, the clock, the contact forces, the simulation ---- */

static size_t forces_size(const struct gym *g)
{
    return 6 * (size_t)g->m->nbody * sizeof(mjtNum);
}

size_t mf_gym_state_size(const void *state)
{
    const struct gym *g = state;
    return sizeof g->x + sizeof g->clock + forces_size(g) + mf_mujoco_state_size(g->m);
}

void mf_gym_save(const void *state, void *bytes)
{
    const struct gym *g = state;
    char *at = bytes;
    memcpy(at, &g->x, sizeof g->x), at += sizeof g->x;
    memcpy(at, &g->clock, sizeof g->clock), at += sizeof g->clock;
    memcpy(at, g->d->cfrc_ext, forces_size(g)), at += forces_size(g);
    mf_mujoco_save(g->m, g->d, at);
}

void mf_gym_load(void *state, const void *bytes)
{
    struct gym *g = state;
    const char *at = bytes, *forces = at + sizeof g->x + sizeof g->clock;
    memcpy(&g->x, at, sizeof g->x);
    memcpy(&g->clock, at + sizeof g->x, sizeof g->clock);
    g->clock = mf_env_count(g->clock);
    g->broken = false;
    mf_mujoco_restore(g->m, g->d, forces + forces_size(g));
    memcpy(g->d->cfrc_ext, forces, forces_size(g));
}
