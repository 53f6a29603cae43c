/* opengl.h - OpenGL without a screen: contexts of OSMesa, which draws on the CPU, or of EGL, which may have a GPU.
 *
 * A library is loaded with the first context, so that other programs do not need it. MuJoCo keeps one table of OpenGL's
 * functions for the process, so that a process has contexts of one library.
 */
#ifndef MF_ENV_OPENGL_H
#define MF_ENV_OPENGL_H

#include "base/err.h"

enum mf_renderer { MF_OSMESA, MF_EGL }; /* as the words of env.renderer */

void mf_opengl_choose(enum mf_renderer r); /* for the process, before its first context; OSMesa unless chosen */

struct mf_opengl;

/* Makes a context for images of this size, and then calls made(self) with it in use, in one thread at a time.
 * MF_EDEVICE names the package of a missing library. */
int mf_opengl_new(struct mf_opengl **gl, int width, int height, void (*made)(void *self), void *self,
                  struct mf_err *err);
/* Lets this thread use it. MF_EDEVICE: EGL refuses a context that another thread uses. */
int mf_opengl_use(struct mf_opengl *gl, struct mf_err *err);
void mf_opengl_free(struct mf_opengl *gl); /* on the thread that used it last; NULL is fine */

#endif
