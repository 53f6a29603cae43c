#include "eval/student.h"

#include <math.h>
#include <stdio.h>

/* The regularised incomplete beta function I_x(a, b), x < (a + 1) / (a + b + 2), by its continued fraction (Abramowitz
 * and Stegun, 26.5.8), evaluated from the front as Lentz does. */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 / fmax(1 - (a + b) * x / (a + 1), tiny), f = d;
    for (int m = 1; m < 10000; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        f *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        f *= c * d;
        if (fabs(c * d - 1) < 1e-15)
            break;
    }
    return f * exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
}

/* P(|T| > t) */
static double two_tails(double t, double dof)
{
    const double a = dof / 2, b = .5, x = dof / (dof + t * t);
    if (!(x > 0))
        return isnan(t) ? NAN : 0;
    if (x >= 1)
        return 1;
    return x < (a + 1) / (a + b + 2) ? beta_fraction(a, b, x) : 1 - beta_fraction(b, a, 1 - x);
}

/* The t that |T| exceeds in 5 % of the cases, by bisection: 12.7 of one degree of freedom is the largest. */
static double limit_95(double dof)
{
    double low = 1, high = 13;
    for (int i = 0; i < 60; i++) {
        const double t = (low + high) / 2;
        if (two_tails(t, dof) > .05)
            low = t;
        else
            high = t;
    }
    return (low + high) / 2;
}

struct mf_mean mf_moments_mean(const struct mf_moments *s)
{
    struct mf_mean m = {.mean = s->n ? s->mean : NAN, .low = NAN, .high = NAN, .p = NAN};
    if (s->n < 2)
        return m;
    const double dof = (double)s->n - 1, error = sqrt(s->square / dof / (double)s->n), half = limit_95(dof) * error;
    m.low = s->mean - half;
    m.high = s->mean + half;
    m.p = error > 0 ? two_tails(s->mean / error, dof) : s->mean == 0 ? 1 : error == 0 ? 0 : NAN;
    return m;
}

int mf_mean_digits(double v)
{
    return fabs(v) < 10 ? 3 : fabs(v) < 10000 ? 1 : 0;
}

void mf_mean_text(const struct mf_mean *m, char *to, size_t size)
{
    const int digits = mf_mean_digits(m->mean);
    if (isnan(m->mean))
        snprintf(to, size, "-");
    else if (isnan(m->low))
        snprintf(to, size, "%.*f", digits, m->mean);
    else
        snprintf(to, size, "%.*f [%.*f, %.*f]", digits, m->mean, digits, m->low, digits, m->high);
}
