/* student.h - Student's t: the mean of a sample, its 95 % interval, and the test that it is 0. */
#ifndef MF_EVAL_STUDENT_H
#define MF_EVAL_STUDENT_H

#include <stddef.h>

#include "base/moments.h"

struct mf_mean {
    double mean, low, high; /* with its 95 % interval; NaN: of fewer than two numbers */
    double p;               /* two-sided, of a mean of 0 */
};
struct mf_mean mf_moments_mean(const struct mf_moments *s);
int mf_mean_digits(double v);                                      /* behind the point, for people: 3, 1 or 0 */
void mf_mean_text(const struct mf_mean *m, char *to, size_t size); /* "1297.3 [1231.0, 1363.6]" */

#endif
