#include "env/cloud.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/env.h"
#include "env/farthest.h"
#include "env/mujoco.h"
#include "env/rays.h"

enum { RAYS = MF_CLOUD_SIDE * MF_CLOUD_SIDE, HITS = MF_CLOUD_CAMERAS * RAYS, SOLIDS_MAX = 64 };

struct camera {
    double pos[3];
    float dir[3 * RAYS]; /* unit vectors in the world */
};

struct mf_cloud {
    const mjModel *m;
    int n_cameras, n_solids;
    int geom[SOLIDS_MAX]; /* that a solid is of */
    float colour[SOLIDS_MAX][3], low[3], high[3];
    struct camera camera[];
};

/* ---- constant data ---- */

static void aim(struct camera *c, const mjModel *m, int number)
{
    const mjtNum *mat = m->cam_mat0 + 9 * number;
    const double half = tan(m->cam_fovy[number] * M_PI / 360);
    memcpy(c->pos, m->cam_pos0 + 3 * number, sizeof c->pos);
    for (int i = 0; i < RAYS; i++) {
        double x = half * (2 * (i % MF_CLOUD_SIDE + .5) / MF_CLOUD_SIDE - 1),
               y = half * (1 - 2 * (i / MF_CLOUD_SIDE + .5) / MF_CLOUD_SIDE), length = sqrt(x * x + y * y + 1);
        for (int k = 0; k < 3; k++)
            c->dir[k * RAYS + i] = (float)((mat[3 * k] * x + mat[3 * k + 1] * y - mat[3 * k + 2]) / length);
    }
}

static int add_solids(struct mf_cloud *c, struct mf_err *err)
{
    const mjModel *m = c->m;
    for (int g = 0; g < m->ngeom; g++) {
        int type = m->geom_type[g];
        const float *rgba = m->geom_matid[g] >= 0 ? m->mat_rgba + 4 * m->geom_matid[g] : m->geom_rgba + 4 * g;
        if (rgba[3] == 0)
            continue;
        if (type != mjGEOM_PLANE && type != mjGEOM_SPHERE && type != mjGEOM_CAPSULE && type != mjGEOM_CYLINDER &&
            type != mjGEOM_BOX)
            return mf_err_set(err, MF_EUSAGE,
                              "geom %d ('%s') is not a plane, box, sphere, capsule or cylinder, the shapes that depth "
                              "cameras support",
                              g, m->names + m->name_geomadr[g]);
        if (c->n_solids == SOLIDS_MAX)
            return mf_err_set(err, MF_EUSAGE, "depth cameras support at most %d geoms", SOLIDS_MAX);
        c->geom[c->n_solids] = g;
        memcpy(c->colour[c->n_solids++], rgba, sizeof c->colour[0]);
    }
    return 0;
}

static bool is_fixed(const mjModel *m, int camera)
{
    return m->cam_bodyid[camera] == 0 && m->cam_mode[camera] == mjCAMLIGHT_FIXED;
}

static int check(const mjModel *m, int site, struct mf_err *err)
{
    int n = 0;
    for (int i = 0; i < m->ncam; i++)
        n += is_fixed(m, i);
    if (n < 1 || n > MF_CLOUD_CAMERAS)
        return mf_err_set(err, MF_EUSAGE,
                          "a point cloud needs 1 to %d cameras that are fixed in the world of the model, not %d",
                          MF_CLOUD_CAMERAS, n);
    if (site < 0 || m->site_bodyid[site] != 0 || m->site_type[site] != mjGEOM_BOX)
        return mf_err_set(err, MF_EUSAGE, "a point cloud needs a box site 'workspace' in the model's world body");
    return 0;
}

int mf_cloud_new(struct mf_cloud **out, const mjModel *m, struct mf_err *err)
{
    int site = mj_name2id(m, mjOBJ_SITE, "workspace"), rc = check(m, site, err);
    if (rc)
        return rc;
    struct mf_cloud *c = mf_xcalloc(1, sizeof *c + (size_t)m->ncam * sizeof *c->camera);
    c->m = m;
    for (int k = 0; k < 3; k++) {
        c->low[k] = (float)(m->site_pos[3 * site + k] - m->site_size[3 * site + k]);
        c->high[k] = (float)(m->site_pos[3 * site + k] + m->site_size[3 * site + k]);
    }
    for (int i = 0; i < m->ncam; i++)
        if (is_fixed(m, i))
            aim(&c->camera[c->n_cameras++], m, i);
    if ((rc = add_solids(c, err))) {
        mf_cloud_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void mf_cloud_free(struct mf_cloud *c)
{
    free(c);
}

/* ---- looking ---- */

struct scan { /* the hits: position and solid */
    size_t n;
    float x[HITS], y[HITS], z[HITS];
    int16_t which[HITS];
};

static void place_solids(const struct mf_cloud *c, mjData *d, struct mf_solid *solid)
{
    mf_mujoco_poses(c->m, d);
    for (int i = 0; i < c->n_solids; i++) {
        int g = c->geom[i];
        solid[i].type = c->m->geom_type[g];
        memcpy(solid[i].pos, d->geom_xpos + 3 * g, sizeof solid->pos);
        memcpy(solid[i].mat, d->geom_xmat + 9 * g, sizeof solid->mat);
        memcpy(solid[i].size, c->m->geom_size + 3 * g, sizeof solid->size);
    }
}

static void keep_hits(const struct mf_cloud *c, const struct camera *cam, const float *t, const int16_t *which,
                      struct scan *s)
{
    const float *dir = cam->dir, *low = c->low, *high = c->high;
    const float ox = (float)cam->pos[0], oy = (float)cam->pos[1], oz = (float)cam->pos[2];
    for (int i = 0; i < RAYS; i++) {
        float px = ox + t[i] * dir[i], py = oy + t[i] * dir[RAYS + i], pz = oz + t[i] * dir[2 * RAYS + i];
        s->x[s->n] = px, s->y[s->n] = py, s->z[s->n] = pz;
        s->which[s->n] = which[i];
        s->n += (which[i] >= 0) & (px >= low[0]) & (px <= high[0]) & (py >= low[1]) & (py <= high[1]) & (pz >= low[2]) &
                (pz <= high[2]);
    }
}

static void pick(const struct scan *s, enum mf_pick how, size_t n, uint16_t *picked)
{
    for (size_t i = 0; i < n; i++)
        picked[i] = (uint16_t)(how == MF_PICK_EVEN ? i * s->n / n : i % s->n);
    if (how == MF_PICK_FARTHEST && s->n > n)
        mf_farthest(s->n, s->x, s->y, s->z, n, picked);
}

int mf_cloud_see(const struct mf_cloud *c, mjData *d, enum mf_pick how, int n, float *to)
{
    struct mf_solid solid[SOLIDS_MAX];
    struct scan s;
    float t[RAYS];
    int16_t which[RAYS];
    uint16_t picked[MF_POINTS_MAX];
    s.n = 0;
    place_solids(c, d, solid);
    for (int i = 0; i < c->n_cameras; i++) {
        const struct camera *cam = &c->camera[i];
        mf_rays_cast(cam->pos, RAYS, cam->dir, (size_t)c->n_solids, solid, t, which);
        keep_hits(c, cam, t, which, &s);
    }
    if (s.n == 0)
        memset(to, 0, (size_t)n * 6 * sizeof *to);
    else
        pick(&s, how, (size_t)n, picked);
    for (int i = 0; s.n && i < n; i++, to += 6) {
        const float *colour = c->colour[s.which[picked[i]]];
        to[0] = s.x[picked[i]], to[1] = s.y[picked[i]], to[2] = s.z[picked[i]];
        to[3] = colour[0], to[4] = colour[1], to[5] = colour[2];
    }
    return (int)s.n;
}
