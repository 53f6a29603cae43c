/* Rays against mj_ray, one ray at a time: every primitive, from outside and inside, and the scenes of our tasks. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "env/hand.h"
#include "env/rays.h"
#include "tap.h"

#define SCENE                                                                                                          \
    "<mujoco><worldbody><geom type='plane' size='.5 .4 .1' pos='0 0 -.3'/>"                                            \
    "<geom type='plane' size='0 0 .1' pos='-.6 0 0' euler='0 70 0'/>"                                                  \
    "<geom type='box' size='.1 .05 .2' pos='.2 .1 0' euler='20 30 40'/>"                                               \
    "<geom type='sphere' size='.12' pos='-.2 .2 .1'/>"                                                                 \
    "<geom type='capsule' size='.06 .15' pos='.1 -.3 .1' euler='70 10 0'/>"                                            \
    "<geom type='cylinder' size='.08 .11' pos='-.25 -.2 -.1' euler='-30 15 0'/></worldbody></mujoco>"

enum { RAYS = 4000 };

static mjModel *model;
static mjData *data;
static struct mf_solid solid[64];

static void pose(void)
{
    mj_kinematics(model, data);
    for (int i = 0; i < model->ngeom; i++) {
        solid[i].type = model->geom_type[i];
        memcpy(solid[i].pos, data->geom_xpos + 3 * i, sizeof solid->pos);
        memcpy(solid[i].mat, data->geom_xmat + 9 * i, sizeof solid->mat);
        memcpy(solid[i].size, model->geom_size + 3 * i, sizeof solid->size);
    }
}

static void draw(struct mf_rng *rng, float *dir)
{
    for (int i = 0; i < RAYS; i++) {
        float v[3], length;
        mf_rng_normal(rng, v, 3);
        length = sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int k = 0; k < 3; k++)
            dir[k * RAYS + i] = v[k] / length;
    }
}

/* A ray that passes an edge by less than a hair may hit it here and not there. */
static bool on_edge(const double origin[3], const double dir[3], double t)
{
    for (int i = 0; i < 8; i++) {
        double near[3];
        int geom;
        for (int k = 0; k < 3; k++)
            near[k] = dir[k] + (i & 1 << k ? 2e-5 : -2e-5);
        double other = mj_ray(model, data, origin, near, NULL, 1, -1, &geom);
        if ((other < 0) != (t < 0) || fabs(other - t) > 1e-3)
            return true;
    }
    return false;
}

/* Solid i is at the distance t, too: two may be equally near. */
static bool is_at(int i, const double origin[3], const double dir[3], double t)
{
    const struct mf_solid *s = &solid[i];
    return i >= 0 && fabs(mju_rayGeom(s->pos, s->mat, s->size, origin, dir, s->type) - t) < 1e-5 * fmax(1, t);
}

struct count {
    int hits, edges, wrong;
    double worst;
};

static void compare(const double origin[3], const float *dir, struct count *c)
{
    float t[RAYS];
    int16_t which[RAYS];
    mf_rays_cast(origin, RAYS, dir, (size_t)model->ngeom, solid, t, which);
    for (int i = 0; i < RAYS; i++) {
        double d[3] = {dir[i], dir[RAYS + i], dir[2 * RAYS + i]};
        int geom;
        double want = mj_ray(model, data, origin, d, NULL, 1, -1, &geom);
        double off = fabs(want - (double)t[i]) / fmax(1, want);
        bool same =
            geom < 0 ? want < 0 && isinf(t[i]) && which[i] == -1 : off < 1e-5 && is_at(which[i], origin, d, want);
        c->hits += geom >= 0;
        if (!same && on_edge(origin, d, want))
            c->edges++;
        else if (!same)
            c->wrong++;
        else if (geom >= 0)
            c->worst = fmax(c->worst, off);
    }
}

static void check(const char *name, int scenes)
{
    static float dir[3 * RAYS];
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, 0, 0, 0);
    struct count c = {0};
    for (int i = 0; i < scenes; i++) {
        double origin[3];
        for (int k = 0; k < 3; k++)
            origin[k] = mf_rng_range(&rng, -.5f, .5f);
        if (i % 3 == 0 && model->ngeom > 2) /* inside a solid */
            memcpy(origin, solid[2 + (size_t)(i / 3) % (size_t)(model->ngeom - 2)].pos, sizeof origin);
        origin[0] += 1e-3;
        draw(&rng, dir);
        compare(origin, dir, &c);
    }
    ok(c.wrong == 0 && c.hits > scenes * RAYS / 10 && c.edges < c.hits / 2000,
       "%s: %d hits as mj_ray's, to %.1e; %d rays along an edge, %d differ", name, c.hits, c.worst, c.edges, c.wrong);
}

static void open_text(const char *text)
{
    struct mf_err err;
    if (mf_mujoco_load(&model, (const struct mf_mjcf[]){{"scene.xml", text}, {NULL, NULL}}, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    data = mj_makeData(model);
    pose();
}

static void check_task(const char *name)
{
    struct mf_err err;
    const struct mf_env *env;
    void *scene;
    if (mf_env_find(&env, name, &err) || env->open(&scene, NULL, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    model = ((struct mf_scene *)scene)->m;
    data = mj_makeData(model);
    data->qpos[2] = .15, data->qpos[3] = .3, data->qpos[4] = .1, data->qpos[6] = data->qpos[7] = .03;
    pose();
    check(name, 6);
    mj_deleteData(data);
    env->close(scene);
}

static void limits(void)
{
    static const float down[3] = {0, 0, -1}, up[3] = {0, 0, 1}, along[3] = {1, 0, 0};
    struct mf_solid floor = {.type = mjGEOM_PLANE, .mat = {1, 0, 0, 0, 1, 0, 0, 0, 1}},
                    can = {.type = mjGEOM_CYLINDER, .mat = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .size = {.03, .05}};
    float t;
    int16_t which;
    mf_rays_cast((double[]){3, 4, 2}, 1, down, 1, &floor, &t, &which);
    ok(t == 2 && which == 0, "a plane without size is everywhere");
    mf_rays_cast((double[]){3, 4, -2}, 1, up, 1, &floor, &t, &which);
    ok(isinf(t) && which == -1, "and no ray from behind meets it");
    mf_rays_cast((double[]){0, 0, 2}, 1, down, 1, &can, &t, &which);
    near(t, 1.95, 1e-6, "a ray along a cylinder's axis meets its lid");
    mf_rays_cast((double[]){-2, 0, 0}, 1, along, 1, &can, &t, &which);
    near(t, 1.97, 1e-6, "one across it its side");
    mf_rays_cast((double[]){-2, 0, .06}, 1, along, 1, &can, &t, &which);
    ok(isinf(t), "one above it nothing");
    can.pos[0] = NAN;
    mf_rays_cast((double[]){-2, 0, 0}, 1, along, 1, &can, &t, &which);
    ok(isinf(t) && which == -1, "no ray meets an absent solid");
}

int main(void)
{
    open_text(SCENE);
    check("all primitives", 60);
    mj_deleteData(data);
    mj_deleteModel(model);
    check_task("lift");
    check_task("can");
    limits();
    return done();
}
