#include "env/painter.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/opengl.h"

enum { GEOMS = 1000, SHADOWS = 1024 };

struct mf_painter {
    struct mf_opengl *gl;
    uint8_t *rgb; /* OpenGL's rows go from the bottom: an image before its rows are turned */
    float *depth;
    enum mf_painter_kind kind;
    int width, height;
    const mjModel *m;
    mjData *d; /* of the scene */
    mjvScene scene;
    mjvOption option;
    mjrContext render;
};

static void open_scene(void *self)
{
    struct mf_painter *p = self;
    const bool video = p->kind == MF_PAINT_VIDEO;
    mjModel sized = *p->m; /* MuJoCo reads buffer sizes from the model, which is shared */
    sized.vis.global.offwidth = p->width;
    sized.vis.global.offheight = p->height;
    sized.vis.quality.offsamples = 0;
    sized.vis.quality.shadowsize = video ? SHADOWS : 0;
    if (!video)
        sized.vis.quality.numquads = 1; /* of a box's face: more would smooth its light, which few pixels show */
    mjv_defaultScene(&p->scene);
    mjv_defaultOption(&p->option);
    mjr_defaultContext(&p->render);
    mjv_makeScene(p->m, &p->scene, GEOMS);
    mjr_makeContext(&sized, &p->render, mjFONTSCALE_100);
    mjr_setBuffer(mjFB_OFFSCREEN, &p->render);
    p->scene.flags[mjRND_REFLECTION] = 0;
    p->scene.flags[mjRND_SHADOW] = p->scene.flags[mjRND_SKYBOX] = video;
}

int mf_painter_new(struct mf_painter **out, const mjModel *m, enum mf_painter_kind kind, int width, int height,
                   struct mf_err *err)
{
    const size_t pixels = (size_t)width * (size_t)height;
    struct mf_painter *p = mf_xcalloc(1, sizeof *p);
    *p = (struct mf_painter){.kind = kind, .width = width, .height = height, .m = m};
    if (mf_alloc((void **)&p->rgb, pixels * 3, "a picture", err) ||
        mf_alloc((void **)&p->depth, pixels * sizeof(float), "a picture", err) ||
        mf_opengl_new(&p->gl, width, height, open_scene, p, err)) {
        mf_painter_free(p);
        return err->code;
    }
    *out = p;
    return 0;
}

void mf_painter_free(struct mf_painter *p)
{
    struct mf_err ignored;
    if (!p)
        return;
    if (p->gl && mf_opengl_use(p->gl, &ignored) == 0)
        mjr_freeContext(&p->render);
    if (p->gl)
        mjv_freeScene(&p->scene);
    mf_opengl_free(p->gl);
    free(p->rgb);
    free(p->depth);
    free(p);
}

/* ---- drawing ---- */

int mf_painter_pose(struct mf_painter *p, mjData *d, struct mf_err *err)
{
    mjvCamera any;
    mjv_defaultCamera(&any);
    int rc = mf_opengl_use(p->gl, err);
    if (rc)
        return rc;
    mf_mujoco_poses(p->m, d);
    mjv_updateScene(p->m, d, &p->option, NULL, &any, mjCAT_ALL, &p->scene);
    p->d = d;
    return 0;
}

static void render(struct mf_painter *p, mjvCamera *camera, mjrRect area, bool rgb, bool depth)
{
    mjv_updateCamera(p->m, p->d, camera, &p->scene);
    mjv_makeLights(p->m, p->d, &p->scene); /* one is at the camera */
    mjr_render(area, &p->scene, &p->render);
    mjr_readPixels(rgb ? p->rgb : NULL, depth ? p->depth : NULL, area, &p->render);
}

static void put_rows(uint8_t *to, const uint8_t *from, size_t row, int height)
{
    for (int y = 0; y < height; y++)
        memcpy(to + (size_t)y * row, from + (size_t)(height - 1 - y) * row, row);
}

void mf_painter_draw(struct mf_painter *p, const struct mf_view *view, int width, int height, uint8_t *rgb)
{
    mjvCamera camera;
    mjv_defaultCamera(&camera);
    memcpy(camera.lookat, view->lookat, sizeof camera.lookat);
    camera.distance = view->distance;
    camera.azimuth = view->azimuth;
    camera.elevation = view->elevation;
    render(p, &camera, (mjrRect){0, 0, width, height}, true, false);
    put_rows(rgb, p->rgb, 3 * (size_t)width, height);
}

/* OpenGL's depth is 1 at the far plane and hyperbolic between. */
static void put_depth(float *to, const float *from, int side, const mjvGLCamera *camera)
{
    const float near = camera->frustum_near, far = camera->frustum_far;
    for (int y = 0; y < side; y++, to += side) {
        const float *row = from + (size_t)(side - 1 - y) * (size_t)side;
        for (int x = 0; x < side; x++)
            to[x] = row[x] < 1 ? near * far / (far - row[x] * (far - near)) : 0;
    }
}

void mf_painter_look(struct mf_painter *p, int number, int side, uint8_t *rgb, float *depth)
{
    mjvCamera camera;
    mjv_defaultCamera(&camera);
    camera.type = mjCAMERA_FIXED;
    camera.fixedcamid = number;
    render(p, &camera, (mjrRect){0, 0, side, side}, rgb, depth);
    if (rgb)
        put_rows(rgb, p->rgb, 3 * (size_t)side, side);
    if (depth)
        put_depth(depth, p->depth, side, &p->scene.camera[0]);
}
