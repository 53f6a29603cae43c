/* points.c - one 64 x 64 depth camera over lift's table: a cloud of all geoms at once, and a mj_ray for each pixel. In
 * turns; the best turn of each. Beside them the choice of 1024 farthest of the 4096. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "env/farthest.h"
#include "env/hand.h"

enum { SIDE = MF_CLOUD_SIDE, RAYS = SIDE * SIDE, POINTS = 1024, TURNS = 300 };

extern const char mf_lift_xml[], mf_hand_xml[];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The cloud's own rays, one by one; x y z (3, RAYS) of the hits. */
static int scan(const mjModel *m, mjData *d, float *at)
{
    const mjtNum *pos = m->cam_pos0, *mat = m->cam_mat0;
    const double half = tan(m->cam_fovy[0] * M_PI / 360);
    int n = 0, geom;
    mj_kinematics(m, d);
    for (int i = 0; i < RAYS; i++) {
        double x = half * (2 * (i % SIDE + .5) / SIDE - 1), y = half * (1 - 2 * (i / SIDE + .5) / SIDE), dir[3];
        for (int k = 0; k < 3; k++)
            dir[k] = mat[3 * k] * x + mat[3 * k + 1] * y - mat[3 * k + 2];
        double t = mj_ray(m, d, pos, dir, NULL, 1, -1, &geom);
        for (int k = 0; k < 3; k++)
            at[k * RAYS + n] = (float)(pos[k] + t * dir[k]);
        n += t >= 0;
    }
    return n;
}

int main(void)
{
    struct mf_err err;
    struct mf_cloud *c;
    mjModel *m;
    static float cloud[6 * POINTS], at[3 * RAYS];
    static uint16_t picked[POINTS];
    const struct mf_mjcf files[] = {{"lift.xml", mf_lift_xml}, {"hand.xml", mf_hand_xml}, {NULL, NULL}};
    if (mf_mujoco_load(&m, files, &err) || (m->ncam = 1, mf_cloud_new(&c, m, &err)))
        fprintf(stderr, "points: %s\n", err.text), exit(1);
    mjData *d = mj_makeData(m);
    d->qpos[2] = .13, d->qpos[6] = d->qpos[7] = .04;
    double ours = 1e9, theirs = 1e9, farthest = 1e9;
    int hits = 0;
    for (int i = 0; i < TURNS; i++) {
        double t0 = now();
        mf_cloud_see(c, d, MF_PICK_EVEN, POINTS, cloud);
        double t1 = now();
        hits = i % 10 ? hits : scan(m, d, at);
        double t2 = now();
        mf_farthest((size_t)hits, at, at + RAYS, at + 2 * RAYS, POINTS, picked);
        double t3 = now();
        ours = fmin(ours, t1 - t0);
        theirs = i % 10 ? theirs : fmin(theirs, t2 - t1);
        farthest = fmin(farthest, t3 - t2);
    }
    printf("points cloud_ms=%.4f mj_ray_ms=%.4f ratio=%.1f hits=%d farthest_ms=%.3f\n", 1e3 * ours, 1e3 * theirs,
           theirs / ours, hits, 1e3 * farthest);
    mj_deleteData(d);
    mf_cloud_free(c);
    mj_deleteModel(m);
    return 0;
}
