#include "env/painter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { RGBA = 0x1908, UNSIGNED_BYTE = 0x1401, DEPTH_BITS = 24, GEOMS = 1000, SHADOWS = 1024 };

/* GL/osmesa.h, as far as it is needed. */
struct osmesa {
    void *(*create)(unsigned format, int depth, int stencil, int accum, void *share);
    unsigned char (*current)(void *context, void *buffer, unsigned type, int width, int height);
    void (*destroy)(void *context);
};

struct mf_painter {
    struct osmesa gl;
    void *context;
    uint8_t *buffer; /* OSMesa's own frame buffer; MuJoCo renders into its offscreen one */
    uint8_t *rgb;    /* OpenGL's rows go from the bottom: an image before its rows are turned */
    float *depth;
    int width, height;
    const mjModel *m;
    mjData *d; /* of the scene */
    mjvScene scene;
    mjvOption option;
    mjrContext render;
};

/* Held while the library is loaded and a context is made: both write variables of the whole process. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static int find_osmesa(struct osmesa *gl, struct mf_err *err)
{
    /* Its own threads cost more than they draw, and all cores step environments already. */
    setenv("LP_NUM_THREADS", "0", false);
    void *lib = dlopen("libOSMesa.so.8", RTLD_NOW | RTLD_GLOBAL); /* global: MuJoCo asks it for OpenGL's functions */
    if (!lib)
        return mf_err_set(err, MF_EDEVICE, "images need OSMesa, but libOSMesa.so.8 is missing: install libosmesa6");
    *(void **)&gl->create = dlsym(lib, "OSMesaCreateContextExt");
    *(void **)&gl->current = dlsym(lib, "OSMesaMakeCurrent");
    *(void **)&gl->destroy = dlsym(lib, "OSMesaDestroyContext");
    return gl->create && gl->current && gl->destroy
               ? 0
               : mf_err_set(err, MF_EDEVICE, "libOSMesa.so.8 lacks functions of OSMesa");
}

static bool make_current(struct mf_painter *p)
{
    return p->gl.current(p->context, p->buffer, UNSIGNED_BYTE, p->width, p->height);
}

static int make(struct mf_painter *p, enum mf_painter_kind kind, struct mf_err *err)
{
    const size_t pixels = (size_t)p->width * (size_t)p->height;
    const bool video = kind == MF_PAINT_VIDEO;
    int rc = find_osmesa(&p->gl, err);
    if (rc || (rc = mf_alloc((void **)&p->buffer, pixels * 4, "a picture", err)) ||
        (rc = mf_alloc((void **)&p->rgb, pixels * 3, "a picture", err)) ||
        (rc = mf_alloc((void **)&p->depth, pixels * sizeof(float), "a picture", err)))
        return rc;
    p->context = p->gl.create(RGBA, DEPTH_BITS, 0, 0, NULL);
    if (!p->context || !make_current(p))
        return mf_err_set(err, MF_EDEVICE, "OSMesa cannot draw %d x %d pixels", p->width, p->height);
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
    return 0;
}

int mf_painter_new(struct mf_painter **out, const mjModel *m, enum mf_painter_kind kind, int width, int height,
                   struct mf_err *err)
{
    struct mf_painter *p = mf_xcalloc(1, sizeof *p);
    *p = (struct mf_painter){.width = width, .height = height, .m = m};
    pthread_mutex_lock(&making);
    int rc = make(p, kind, err);
    pthread_mutex_unlock(&making);
    if (rc)
        mf_painter_free(p);
    else
        *out = p;
    return rc;
}

void mf_painter_free(struct mf_painter *p)
{
    if (!p)
        return;
    if (p->render.offFBO) {
        make_current(p);
        mjr_freeContext(&p->render);
        mjv_freeScene(&p->scene);
    }
    if (p->context)
        p->gl.destroy(p->context);
    free(p->buffer);
    free(p->rgb);
    free(p->depth);
    free(p);
}

/* ---- drawing ---- */

void mf_painter_pose(struct mf_painter *p, mjData *d)
{
    mjvCamera any;
    mjv_defaultCamera(&any);
    mf_mujoco_poses(p->m, d);
    mjv_updateScene(p->m, d, &p->option, NULL, &any, mjCAT_ALL, &p->scene);
    p->d = d;
}

static void render(struct mf_painter *p, mjvCamera *camera, mjrRect area, bool rgb, bool depth)
{
    make_current(p);
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
