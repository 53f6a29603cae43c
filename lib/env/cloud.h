/* cloud.h - the point cloud that depth cameras see in a MuJoCo scene, without a GPU.
 *
 * Each camera that is fixed in the world casts SIDE x SIDE rays; the hits inside the box site "workspace" form the
 * cloud. It depends on qpos alone, so a loaded state gives the same bits.
 */
#ifndef MF_ENV_CLOUD_H
#define MF_ENV_CLOUD_H

#include <mujoco/mujoco.h>

#include "base/err.h"

enum { MF_CLOUD_SIDE = 64, MF_CLOUD_CAMERAS = 4 };

struct mf_cloud; /* of one model, which must outlive it; read only, shared by threads */

/* MF_EUSAGE: no fixed camera, no workspace, or a geom other than plane, box, sphere, capsule, cylinder. */
int mf_cloud_new(struct mf_cloud **c, const mjModel *m, struct mf_err *err);
void mf_cloud_free(struct mf_cloud *c); /* NULL is fine */

/* Selection of n points from the hits. EVEN: at equal intervals in scan order; too few hits are repeated in place.
 * FARTHEST: farthest-point sampling from the first hit; too few hits are repeated as a whole. No hits: zeros. */
enum mf_pick { MF_PICK_EVEN, MF_PICK_FARTHEST };

/* The cloud of d->qpos: to (n, 6), world x y z and the geom's r g b in [0, 1], n <= MF_POINTS_MAX. Does not change
 * qpos. Returns the number of hits in the workspace. */
int mf_cloud_see(const struct mf_cloud *c, mjData *d, enum mf_pick how, int n, float *to);

#endif
