#include "env/rays.h"

#include <math.h>
#include <stdbool.h>

/* cast() must inline everything it calls, so that all of it is compiled for the selected processor. */
#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = 256 }; /* rays at a time: they stay in the first cache for all solids */

/* The ray o + t d in the frame of a solid, and the solid. */
struct meeting {
    float o[3], size[3];
};

struct span { /* of t inside a convex solid; near > far: it misses */
    float near, far;
};

INLINE float least(float a, float b)
{
    return a < b ? a : b;
}

INLINE float most(float a, float b)
{
    return a > b ? a : b;
}

INLINE struct span both(struct span a, struct span b)
{
    return (struct span){most(a.near, b.near), least(a.far, b.far)};
}

/* The convex hull of two spans on one line, one of which may miss. */
INLINE struct span either(struct span a, struct span b)
{
    bool none_a = a.near > a.far, none_b = b.near > b.far;
    struct span hull = {least(a.near, b.near), most(a.far, b.far)};
    hull.near = none_a ? b.near : none_b ? a.near : hull.near;
    hull.far = none_a ? b.far : none_b ? a.far : hull.far;
    return hull;
}

INLINE struct span slab(float o, float d, float half)
{
    float a = (-half - o) / d, b = (half - o) / d;
    return (struct span){least(a, b), most(a, b)};
}

/* From the point of the line that is nearest to the centre on: numbers of the solid's size, which cancel little. */
INLINE struct span ball(float ox, float oy, float oz, float dx, float dy, float dz, float radius)
{
    float b = -(ox * dx + oy * dy + oz * dz), x = ox + b * dx, y = oy + b * dy, z = oz + b * dz;
    float rest = radius * radius - (x * x + y * y + z * z), half = sqrtf(most(rest, 0));
    float near = b - half, far = b + half;
    return (struct span){rest < 0 ? INFINITY : near, far};
}

INLINE struct span tube(float ox, float oy, float dx, float dy, float radius)
{
    float a = most(dx * dx + dy * dy, 1e-12f), b = -(ox * dx + oy * dy) / a, x = ox + b * dx, y = oy + b * dy;
    float rest = radius * radius - (x * x + y * y), half = sqrtf(most(rest, 0) / a);
    float near = b - half, far = b + half;
    return (struct span){rest < 0 ? INFINITY : near, far};
}

INLINE struct span meet(int type, const struct meeting *m, float dx, float dy, float dz)
{
    const float ox = m->o[0], oy = m->o[1], oz = m->o[2], *size = m->size;
    if (type == mjGEOM_BOX)
        return both(both(slab(ox, dx, size[0]), slab(oy, dy, size[1])), slab(oz, dz, size[2]));
    if (type == mjGEOM_SPHERE)
        return ball(ox, oy, oz, dx, dy, dz, size[0]);
    struct span side = both(tube(ox, oy, dx, dy, size[0]), slab(oz, dz, size[1]));
    if (type == mjGEOM_CYLINDER)
        return side;
    return either(
        side, either(ball(ox, oy, oz - size[1], dx, dy, dz, size[0]), ball(ox, oy, oz + size[1], dx, dy, dz, size[0])));
}

/* A plane has no inside; size 0: infinite. */
INLINE float meet_plane(const struct meeting *m, float dx, float dy, float dz)
{
    float t = -m->o[2] / dz, x = m->o[0] + t * dx, y = m->o[1] + t * dy;
    bool inside = (m->size[0] <= 0 || fabsf(x) <= m->size[0]) && (m->size[1] <= 0 || fabsf(y) <= m->size[1]);
    return ((dz < 0) & inside & (t >= 0)) ? t : INFINITY;
}

INLINE void against(int type, const struct mf_solid *s, const struct meeting *m, int32_t number, size_t n,
                    const float *restrict x, const float *restrict y, const float *restrict z, float *restrict t,
                    int32_t *restrict which)
{
    float r[9];
    for (int i = 0; i < 9; i++)
        r[i] = (float)s->mat[i];
    for (size_t i = 0; i < n; i++) {
        float dx = r[0] * x[i] + r[3] * y[i] + r[6] * z[i], dy = r[1] * x[i] + r[4] * y[i] + r[7] * z[i],
              dz = r[2] * x[i] + r[5] * y[i] + r[8] * z[i], at;
        if (type == mjGEOM_PLANE) {
            at = meet_plane(m, dx, dy, dz);
        } else {
            struct span in = meet(type, m, dx, dy, dz);
            at = in.near >= 0 ? in.near : in.far;
            at = ((in.near <= in.far) & (in.far >= 0)) ? at : INFINITY;
        }
        which[i] = at < t[i] ? number : which[i];
        t[i] = least(at, t[i]);
    }
}

INLINE void cast(const double origin[3], size_t n, const float *dir, size_t n_solids, const struct mf_solid *solid,
                 float *t, int16_t *which)
{
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t left = n - first, count = left < BLOCK ? left : BLOCK;
        const float *x = dir + first, *y = x + n, *z = y + n;
        float near[BLOCK];
        int32_t number[BLOCK];
        for (size_t i = 0; i < BLOCK; i++)
            near[i] = INFINITY, number[i] = -1;
        for (size_t k = 0; k < n_solids; k++) {
            const struct mf_solid *s = &solid[k];
            struct meeting m;
            for (int i = 0; i < 3; i++) {
                double o = 0;
                for (int j = 0; j < 3; j++)
                    o += s->mat[3 * j + i] * (origin[j] - s->pos[j]);
                m.o[i] = (float)o;
                m.size[i] = (float)s->size[i];
            }
            if (s->type == mjGEOM_BOX)
                against(mjGEOM_BOX, s, &m, (int32_t)k, count, x, y, z, near, number);
            else if (s->type == mjGEOM_SPHERE)
                against(mjGEOM_SPHERE, s, &m, (int32_t)k, count, x, y, z, near, number);
            else if (s->type == mjGEOM_CYLINDER)
                against(mjGEOM_CYLINDER, s, &m, (int32_t)k, count, x, y, z, near, number);
            else if (s->type == mjGEOM_CAPSULE)
                against(mjGEOM_CAPSULE, s, &m, (int32_t)k, count, x, y, z, near, number);
            else
                against(mjGEOM_PLANE, s, &m, (int32_t)k, count, x, y, z, near, number);
        }
        for (size_t i = 0; i < count; i++)
            t[first + i] = near[i], which[first + i] = (int16_t)number[i];
    }
}

__attribute__((target("avx2"))) static void cast_avx2(const double origin[3], size_t n, const float *dir,
                                                      size_t n_solids, const struct mf_solid *solid, float *t,
                                                      int16_t *which)
{
    cast(origin, n, dir, n_solids, solid, t, which);
}

static void cast_plain(const double origin[3], size_t n, const float *dir, size_t n_solids,
                       const struct mf_solid *solid, float *t, int16_t *which)
{
    cast(origin, n, dir, n_solids, solid, t, which);
}

void mf_rays_cast(const double origin[3], size_t n, const float *dir, size_t n_solids, const struct mf_solid *solid,
                  float *t, int16_t *which)
{
    (__builtin_cpu_supports("avx2") ? cast_avx2 : cast_plain)(origin, n, dir, n_solids, solid, t, which);
}
