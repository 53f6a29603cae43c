/* painter.h - images of a MuJoCo simulation without a screen or a GPU: OSMesa renders into memory.
 *
 * The library is loaded with the first image, so that other programs do not need it. A painter belongs to the thread
 * that made it.
 */
#ifndef MF_ENV_PAINTER_H
#define MF_ENV_PAINTER_H

#include <stdint.h>

#include "env/mujoco.h"

struct mf_view {                /* the camera's pose */
    double lookat[3], distance; /* m */
    double azimuth, elevation;  /* degrees */
};

struct mf_painter;

/* MF_EDEVICE where there is no OSMesa. */
int mf_painter_new(struct mf_painter **p, const mjModel *m, int width, int height, struct mf_err *err);
void mf_painter_free(struct mf_painter *p); /* NULL is fine */
/* rgb (height, width, 3), rows from the top. The poses in d are brought up to date with its positions first. */
void mf_painter_draw(struct mf_painter *p, mjData *d, const struct mf_view *view, uint8_t *rgb);

#endif
