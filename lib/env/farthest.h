/* farthest.h - farthest-point sampling.
 *
 * Start with the first point, then take, again and again, the one whose distance to all that were taken is largest (the
 * earlier of equal ones). Exact; points that lie near each other in the order, as a scan's do, make it fast.
 */
#ifndef MF_ENV_FARTHEST_H
#define MF_ENV_FARTHEST_H

#include <stddef.h>
#include <stdint.h>

enum { MF_FARTHEST_MAX = 1 << 14 };

/* picked (n): indices of n of the `total` <= MF_FARTHEST_MAX points x y z (total, each). If fewer than n points differ,
 * points are repeated. */
void mf_farthest(size_t total, const float *x, const float *y, const float *z, size_t n, uint16_t *picked);

#endif
