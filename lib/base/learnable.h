/* learnable.h - numbers from files and streams that float32 can learn from: finite, and so small that the squares and
 * sums of a loss stay finite, too. Whoever reads them names the place of another one; later it would look like a loss
 * that diverged. */
#ifndef MF_BASE_LEARNABLE_H
#define MF_BASE_LEARNABLE_H

#include <stdbool.h>
#include <stddef.h>

bool mf_learnable(double x);
size_t mf_unlearnable_at(const float *x, size_t n); /* index of the first that is not; n: none */
/* ", more than .." of a finite number, to follow the number in an error; "" of another one. */
const char *mf_unlearnable_why(double x);

#endif
