/* painter.h - images of a MuJoCo simulation without a screen, by a library of opengl.h.
 *
 * A painter is used by one thread. What it draws is a function of the positions d->qpos: neither its earlier images nor
 * its size matter.
 */
#ifndef MF_ENV_PAINTER_H
#define MF_ENV_PAINTER_H

#include <stdint.h>

#include "env/mujoco.h"

struct mf_view {                /* the camera's pose */
    double lookat[3], distance; /* m */
    double azimuth, elevation;  /* degrees */
};

/* For people: with shadows and a sky. For policies: without, which is several times faster. */
enum mf_painter_kind { MF_PAINT_VIDEO, MF_PAINT_OBS };

struct mf_painter;

/* width, height: the largest image. MF_EDEVICE where the library is missing. */
int mf_painter_new(struct mf_painter **p, const mjModel *m, enum mf_painter_kind kind, int width, int height,
                   struct mf_err *err);
void mf_painter_free(struct mf_painter *p); /* NULL is fine */

/* The scene of the next images, which follow in the same thread: geoms and cameras at the positions d->qpos, which are
 * not changed. MF_EDEVICE: see mf_opengl_use. */
int mf_painter_pose(struct mf_painter *p, mjData *d, struct mf_err *err);
/* Draws the scene: rgb (height, width, 3), rows from the top. */
void mf_painter_draw(struct mf_painter *p, const struct mf_view *view, int width, int height, uint8_t *rgb);
/* Draws what a camera of the model sees, in one rendering; NULL: not wanted. rgb (side, side, 3), rows from the top.
 * depth (side, side): metres along the camera's axis, 0 where nothing is hit. */
void mf_painter_look(struct mf_painter *p, int camera, int side, uint8_t *rgb, float *depth);

#endif
