/* rays.h - many rays from one point against a few solids, whole vectors of rays at once.
 *
 * What mj_ray does for one ray: solids are MuJoCo's primitive geoms with its
 * meaning of size, seen from outside and from inside; a plane is seen from its
 * front alone. In float, so that distances agree with mj_ray to 1e-5 m at arm's
 * length; the bits are the same on every processor.
 */
#ifndef MF_ENV_RAYS_H
#define MF_ENV_RAYS_H

#include <stddef.h>
#include <stdint.h>

#include <mujoco/mujoco.h>

struct mf_solid {
    int type;       /* mjGEOM_PLANE, SPHERE, CAPSULE, CYLINDER or BOX */
    double pos[3];  /* of its centre in the world */
    double mat[9];  /* its axes are the columns; row-major, as geom_xmat */
    double size[3]; /* as geom_size */
};

/* t (n): the distance along dir (3, n: unit vectors, x then y then z) to the nearest solid, INFINITY where there is
 * none; which (n): that solid, -1 for none. */
void mf_rays_cast(const double origin[3], size_t n, const float *dir, size_t n_solids, const struct mf_solid *solid,
                  float *t, int16_t *which);

#endif
