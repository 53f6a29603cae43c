/* picture.c - drawing lift's front camera: as an observation, and by a bare loop of MuJoCo's renderer with the same
 * flags. Both draw the same states and give the same pixels; in turns, the best turn of each. One core. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "env/hand.h"

enum { STATES = 16, TURNS = 40, SIDE_MAX = 128 };

static const struct mf_env *env;
static const struct mf_scene *scene;
static void *state[STATES];
static uint8_t pixels[2][STATES][3 * SIDE_MAX * SIDE_MAX];

/* ---- the bare renderer ---- */

struct bare {
    int side;
    void *context, *buffer;
    unsigned char (*current)(void *context, void *buffer, unsigned type, int width, int height);
    mjvScene scene;
    mjvOption option;
    mjvCamera camera;
    mjrContext render;
};

static void bare_current(struct bare *b)
{
    b->current(b->context, b->buffer, 0x1401, b->side, b->side);
}

static void bare_open(struct bare *b, int side)
{
    struct mf_err err;
    void *lib = dlopen("libOSMesa.so.8", RTLD_NOW | RTLD_GLOBAL);
    void *(*create)(unsigned format, int depth, int stencil, int accum, void *share);
    bench_must(lib ? 0 : mf_err_set(&err, MF_EDEVICE, "no libOSMesa.so.8"), &err);
    *(void **)&create = dlsym(lib, "OSMesaCreateContextExt");
    *(void **)&b->current = dlsym(lib, "OSMesaMakeCurrent");
    b->side = side;
    b->context = create(0x1908, 24, 0, 0, NULL);
    b->buffer = malloc(4 * (size_t)side * (size_t)side);
    bare_current(b);
    mjModel m = *scene->m;
    m.vis.global.offwidth = m.vis.global.offheight = side;
    m.vis.quality.offsamples = m.vis.quality.shadowsize = 0;
    m.vis.quality.numquads = 1;
    mjv_defaultOption(&b->option);
    mjv_defaultCamera(&b->camera);
    b->camera.type = mjCAMERA_FIXED;
    b->camera.fixedcamid = mj_name2id(scene->m, mjOBJ_CAMERA, "front");
    mjv_makeScene(scene->m, &b->scene, 1000);
    mjr_makeContext(&m, &b->render, mjFONTSCALE_100);
    mjr_setBuffer(mjFB_OFFSCREEN, &b->render);
    b->scene.flags[mjRND_SHADOW] = b->scene.flags[mjRND_SKYBOX] = b->scene.flags[mjRND_REFLECTION] = 0;
}

static void bare_draw(struct bare *b, mjData *d, uint8_t *rgb)
{
    const mjrRect all = {0, 0, b->side, b->side};
    mj_kinematics(scene->m, d);
    mj_camlight(scene->m, d);
    mjv_updateScene(scene->m, d, &b->option, NULL, &b->camera, mjCAT_ALL, &b->scene);
    mjr_render(all, &b->scene, &b->render);
    mjr_readPixels(rgb, NULL, all, &b->render);
}

/* ---- turns ---- */

static void make_states(void)
{
    struct mf_err err;
    for (uint32_t i = 0; i < STATES; i++) {
        struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, i, 0, 0);
        float action[MF_HAND_ACTION];
        bench_must(env->init(&state[i], scene, env->max_steps, &err), &err);
        env->reset(state[i], &rng);
        mf_rng_normal(&rng, action, MF_HAND_ACTION);
        for (int t = 0; t < 8; t++)
            env->step(state[i], action);
    }
}

static bool same_pixels(int side) /* bare rows go from the bottom */
{
    const size_t row = 3 * (size_t)side;
    for (int i = 0; i < STATES; i++)
        for (int y = 0; y < side; y++)
            if (memcmp(pixels[0][i] + (size_t)y * row, pixels[1][i] + (size_t)(side - 1 - y) * row, row))
                return false;
    return true;
}

static void measure(int side)
{
    static const char key[][64] = {"agentview_image", "agentview_depth"};
    static float obs[SIDE_MAX * SIDE_MAX * 2];
    struct mf_err err;
    struct mf_layout one, both;
    struct bare b = {0};
    void *painter = NULL;
    double ours = 1e9, theirs = 1e9, depth = 1e9;
    bench_must(mf_env_layout(env, 1, key, NULL, &one, &err) || mf_env_layout(env, 2, key, NULL, &both, &err), &err);
    mf_env_side(env, &one, side);
    mf_env_side(env, &both, side);
    for (int t = 0; t < TURNS; t++) {
        double t0 = bench_now();
        for (int i = 0; i < STATES; i++)
            bench_must(env->picture(state[i], &painter, &one, (float *)pixels[0][i], &err), &err);
        double t1 = bench_now();
        for (int i = 0; i < STATES; i++)
            bench_must(env->picture(state[i], &painter, &both, obs, &err), &err);
        double t2 = bench_now();
        if (t == 0) /* after ours, which sets LP_NUM_THREADS */
            bare_open(&b, side);
        bare_current(&b);
        double t3 = bench_now();
        for (int i = 0; i < STATES; i++)
            bare_draw(&b, ((struct mf_hand *)state[i])->d, pixels[1][i]);
        ours = fmin(ours, t1 - t0), depth = fmin(depth, t2 - t1), theirs = fmin(theirs, bench_now() - t3);
    }
    bench_must(same_pixels(side) ? 0 : mf_err_set(&err, MF_EMATH, "%d pixels: ours differ from MuJoCo's", side), &err);
    printf("picture side=%d us=%.1f with_depth_us=%.1f bare_us=%.1f ratio=%.3f\n", side, 1e6 * ours / STATES,
           1e6 * depth / STATES, 1e6 * theirs / STATES, theirs / ours);
    env->end_paint(painter);
}

int main(void)
{
    static const int side[] = {64, 84, 96, SIDE_MAX};
    struct mf_err err;
    void *m = NULL;
    bench_must(mf_env_find(&env, "lift", &err) || env->open(&m, NULL, &err) ? err.code : 0, &err);
    scene = m;
    make_states();
    for (int i = 0; i < 4; i++)
        measure(side[i]);
    return 0;
}
