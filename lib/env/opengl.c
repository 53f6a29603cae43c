#include "env/opengl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"

enum { RGBA = 0x1908, UNSIGNED_BYTE = 0x1401, DEPTH_BITS = 24 };
enum {
    EGL_OPENGL = 0x30A2,
    EGL_DEVICE = 0x313F,
    EGL_SURFACE = 0x3033,
    EGL_PBUFFER_BIT = 1,
    EGL_RENDERABLE = 0x3040,
    EGL_OPENGL_BIT = 8,
    EGL_NONE = 0x3038,
    DEVICES = 16
};

/* GL/osmesa.h, as far as it is needed. */
struct osmesa {
    void *(*create)(unsigned format, int depth, int stencil, int accum, void *share);
    unsigned char (*current)(void *context, void *buffer, unsigned type, int width, int height);
    void (*destroy)(void *context);
};

/* EGL/egl.h and the extensions that find a GPU without a screen, likewise. */
struct egl {
    void *(*address)(const char *name);
    unsigned (*initialize)(void *display, int32_t *major, int32_t *minor);
    unsigned (*choose)(void *display, const int32_t *wanted, void **config, int32_t room, int32_t *n);
    unsigned (*bind)(unsigned api);
    void *(*create)(void *display, void *config, void *share, const int32_t *wanted);
    unsigned (*current)(void *display, void *draw, void *read, void *context);
    unsigned (*destroy)(void *display, void *context);
    void *display, *config;
};

struct mf_opengl {
    void *context;
    uint8_t *buffer; /* OSMesa's own frame buffer; MuJoCo renders into its offscreen one */
    int width, height;
};

/* Of the process, as the functions that MuJoCo finds are. The lock is held while a library is loaded or MuJoCo makes
 * its part of a context. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static enum mf_renderer chosen = MF_OSMESA;
static struct osmesa osmesa;
static struct egl egl;

void mf_opengl_choose(enum mf_renderer r)
{
    chosen = r;
}

static bool load(const char *file, void *const *to, const char *const *name, int n)
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_GLOBAL); /* global: MuJoCo asks it for OpenGL's functions */
    for (int i = 0; lib && i < n; i++)
        if (!(*(void **)to[i] = dlsym(lib, name[i])))
            return false;
    return lib;
}

/* ---- OSMesa ---- */

static int load_osmesa(struct mf_err *err)
{
    void *const to[] = {&osmesa.create, &osmesa.current, &osmesa.destroy};
    static const char *const name[] = {"OSMesaCreateContextExt", "OSMesaMakeCurrent", "OSMesaDestroyContext"};
    /* Its own threads cost more than they draw, and all cores step environments already. */
    setenv("LP_NUM_THREADS", "0", false);
    return load("libOSMesa.so.8", to, name, 3)
               ? 0
               : mf_err_set(err, MF_EDEVICE, "images need OSMesa, but libOSMesa.so.8 is missing: install libosmesa6");
}

static bool use_osmesa(struct mf_opengl *gl)
{
    return osmesa.current(gl->context, gl->buffer, UNSIGNED_BYTE, gl->width, gl->height);
}

/* ---- EGL ---- */

/* The first device with OpenGL. */
static bool find_display(void)
{
    static const int32_t any[] = {EGL_SURFACE, EGL_PBUFFER_BIT, EGL_RENDERABLE, EGL_OPENGL_BIT, EGL_NONE};
    unsigned (*query)(int32_t room, void **device, int32_t *n) = NULL;
    void *(*display)(unsigned platform, void *device, const int32_t *wanted) = NULL, *device[DEVICES];
    int32_t n = 0, configs = 0;
    *(void **)&query = egl.address("eglQueryDevicesEXT");
    *(void **)&display = egl.address("eglGetPlatformDisplayEXT");
    if (!query || !display || !query(DEVICES, device, &n))
        return false;
    for (int i = 0; i < n; i++) {
        egl.display = display(EGL_DEVICE, device[i], NULL);
        if (egl.display && egl.initialize(egl.display, NULL, NULL) && egl.bind(EGL_OPENGL) &&
            egl.choose(egl.display, any, &egl.config, 1, &configs) && configs == 1)
            return true;
    }
    return false;
}

static int load_egl(struct mf_err *err)
{
    void *const to[] = {&egl.address, &egl.initialize, &egl.choose, &egl.bind, &egl.create, &egl.current, &egl.destroy};
    static const char *const name[] = {"eglGetProcAddress", "eglInitialize",  "eglChooseConfig",  "eglBindAPI",
                                       "eglCreateContext",  "eglMakeCurrent", "eglDestroyContext"};
    if (egl.config)
        return 0;
    setenv("LP_NUM_THREADS", "0", false);
    if (!load("libEGL.so.1", to, name, 7))
        return mf_err_set(
            err, MF_EDEVICE,
            "env.renderer=egl needs libEGL.so.1, which is missing: install libegl1, or leave env.renderer");
    return find_display() ? 0
                          : mf_err_set(err, MF_EDEVICE,
                                       "EGL finds no device that draws OpenGL without a screen: leave env.renderer");
}

static bool use_egl(struct mf_opengl *gl)
{
    return egl.bind(EGL_OPENGL) && egl.current(egl.display, NULL, NULL, gl->context);
}

/* ---- both ---- */

int mf_opengl_use(struct mf_opengl *gl, struct mf_err *err)
{
    return (chosen == MF_EGL ? use_egl(gl) : use_osmesa(gl))
               ? 0
               : mf_err_set(err, MF_EDEVICE, "%s cannot draw %d x %d pixels in this thread",
                            chosen == MF_EGL ? "EGL" : "OSMesa", gl->width, gl->height);
}

static int make(struct mf_opengl *gl, struct mf_err *err)
{
    int rc = chosen == MF_EGL ? load_egl(err) : load_osmesa(err);
    if (rc)
        return rc;
    if (chosen == MF_EGL)
        gl->context = egl.bind(EGL_OPENGL) ? egl.create(egl.display, egl.config, NULL, NULL) : NULL;
    else if ((rc = mf_alloc((void **)&gl->buffer, (size_t)gl->width * (size_t)gl->height * 4, "a picture", err)))
        return rc;
    else
        gl->context = osmesa.create(RGBA, DEPTH_BITS, 0, 0, NULL);
    return gl->context
               ? mf_opengl_use(gl, err)
               : mf_err_set(err, MF_EDEVICE, "%s makes no context of OpenGL", chosen == MF_EGL ? "EGL" : "OSMesa");
}

int mf_opengl_new(struct mf_opengl **out, int width, int height, void (*made)(void *self), void *self,
                  struct mf_err *err)
{
    struct mf_opengl *gl = mf_xcalloc(1, sizeof *gl);
    *gl = (struct mf_opengl){.width = width, .height = height};
    pthread_mutex_lock(&making);
    int rc = make(gl, err);
    if (rc == 0)
        made(self);
    pthread_mutex_unlock(&making);
    if (rc)
        mf_opengl_free(gl);
    else
        *out = gl;
    return rc;
}

void mf_opengl_free(struct mf_opengl *gl)
{
    if (gl && gl->context && chosen == MF_EGL) {
        egl.current(egl.display, NULL, NULL, NULL);
        egl.destroy(egl.display, gl->context);
    } else if (gl && gl->context) {
        osmesa.destroy(gl->context);
    }
    if (gl)
        free(gl->buffer);
    free(gl);
}
