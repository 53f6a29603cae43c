/* cloud.h - a point cloud of a MuJoCo scene, as depth cameras see it, without a GPU.
 *
 * Every camera of the model casts SIDE x SIDE rays at its geoms; the hits
 * inside the box site "workspace" are the cloud. It depends on qpos alone, so
 * that a state that was loaded shows the same bits.
 */
#ifndef MF_ENV_CLOUD_H
#define MF_ENV_CLOUD_H

#include <mujoco/mujoco.h>

#include "base/err.h"

enum { MF_CLOUD_SIDE = 64, MF_CLOUD_CAMERAS = 4 };

struct mf_cloud; /* of one model, which must live as long; read only: several threads look at once */

/* MF_EUSAGE: no camera or no workspace, a camera that moves, a geom that is no plane, box, sphere, capsule, cylinder.
 */
int mf_cloud_new(struct mf_cloud **c, const mjModel *m, struct mf_err *err);
void mf_cloud_free(struct mf_cloud *c); /* NULL is fine */

/* How the wanted number is chosen from the hits. EVEN: each so many-th in the order of the scan, and where there are
 * too few, each of them so many times. FARTHEST: from the first hit on, the one farthest from all chosen so far; where
 * there are too few, all of them again and again. No hit at all: zeros. */
enum mf_pick { MF_PICK_EVEN, MF_PICK_FARTHEST };

/* The cloud as d->qpos stands, which does not change: to (n, 6), x y z in the world and the geom's r g b in [0, 1],
 * n <= MF_POINTS_MAX.
 * Returns the number of hits in the workspace. */
int mf_cloud_see(const struct mf_cloud *c, mjData *d, enum mf_pick how, int n, float *to);

#endif
