#include "env/painter.h"

#include <dlfcn.h>
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
    int width, height;
    const mjModel *m;
    mjvScene scene;
    mjvOption option;
    mjrContext render;
};

static int find_osmesa(struct osmesa *gl, struct mf_err *err)
{
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

int mf_painter_new(struct mf_painter **out, const mjModel *m, int width, int height, struct mf_err *err)
{
    struct osmesa gl;
    int rc = find_osmesa(&gl, err);
    if (rc)
        return rc;
    struct mf_painter *p = mf_xcalloc(1, sizeof *p);
    *p = (struct mf_painter){.gl = gl, .width = width, .height = height, .m = m};
    if ((rc = mf_alloc((void **)&p->buffer, (size_t)width * (size_t)height * 4, "a picture", err))) {
        mf_painter_free(p);
        return rc;
    }
    p->context = gl.create(RGBA, DEPTH_BITS, 0, 0, NULL);
    if (!p->context || !gl.current(p->context, p->buffer, UNSIGNED_BYTE, width, height)) {
        mf_painter_free(p);
        return mf_err_set(err, MF_EDEVICE, "OSMesa cannot draw %d x %d pixels", width, height);
    }
    mjModel sized = *m; /* MuJoCo reads buffer sizes from the model, which is shared */
    sized.vis.global.offwidth = width;
    sized.vis.global.offheight = height;
    sized.vis.quality.offsamples = 0;
    sized.vis.quality.shadowsize = SHADOWS;
    mjv_defaultScene(&p->scene);
    mjv_defaultOption(&p->option);
    mjr_defaultContext(&p->render);
    mjv_makeScene(m, &p->scene, GEOMS);
    mjr_makeContext(&sized, &p->render, mjFONTSCALE_100);
    mjr_setBuffer(mjFB_OFFSCREEN, &p->render);
    p->scene.flags[mjRND_REFLECTION] = 0;
    *out = p;
    return 0;
}

void mf_painter_free(struct mf_painter *p)
{
    if (!p)
        return;
    if (p->render.offFBO) {
        mjr_freeContext(&p->render);
        mjv_freeScene(&p->scene);
    }
    if (p->context)
        p->gl.destroy(p->context);
    free(p->buffer);
    free(p);
}

/* OpenGL's rows go from the bottom. */
static void turn(uint8_t *rgb, int width, int height)
{
    size_t row = 3 * (size_t)width;
    uint8_t *spare = mf_xcalloc(row, 1);
    for (int y = 0; y < height / 2; y++) {
        uint8_t *a = rgb + (size_t)y * row, *b = rgb + (size_t)(height - 1 - y) * row;
        memcpy(spare, a, row);
        memcpy(a, b, row);
        memcpy(b, spare, row);
    }
    free(spare);
}

void mf_painter_draw(struct mf_painter *p, mjData *d, const struct mf_view *view, uint8_t *rgb)
{
    const mjrRect all = {0, 0, p->width, p->height};
    mjvCamera camera;
    mjv_defaultCamera(&camera);
    memcpy(camera.lookat, view->lookat, sizeof camera.lookat);
    camera.distance = view->distance;
    camera.azimuth = view->azimuth;
    camera.elevation = view->elevation;
    p->gl.current(p->context, p->buffer, UNSIGNED_BYTE, p->width, p->height);
    mj_kinematics(p->m, d);
    mj_camlight(p->m, d);
    mjv_updateScene(p->m, d, &p->option, NULL, &camera, mjCAT_ALL, &p->scene);
    mjr_render(all, &p->scene, &p->render);
    mjr_readPixels(rgb, NULL, all, &p->render);
    turn(rgb, p->width, p->height);
}
