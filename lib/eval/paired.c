#include "eval/paired.h"

#include <math.h>
#include <stdio.h>

#include "eval/eval.h"

/* The correlation of the two rates. A positive numerator is reduced by n/2, at most to 0 (continuity correction). */
static double correlation(double a, double b, double c, double d)
{
    double margins = (a + b) * (c + d) * (a + c) * (b + d), excess = a * d - b * c, half = (a + b + c + d) / 2;
    if (excess > 0)
        excess = fmax(excess - half, 0);
    return margins > 0 ? excess / sqrt(margins) : 0;
}

/* Binomial(n, 1/2) <= k */
static double lower_tail(int64_t k, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) - (double)n * log(2));
    return sum;
}

struct mf_paired mf_pair(int64_t both, int64_t won, int64_t lost, int64_t neither)
{
    int64_t n = both + won + lost + neither;
    struct mf_paired r = {.n = n, .won = won, .lost = lost};
    struct mf_rate x = mf_wilson(both + won, n), y = mf_wilson(both + lost, n);
    double phi = correlation((double)both, (double)won, (double)lost, (double)neither);
    double x_down = x.rate - x.low, x_up = x.high - x.rate, y_down = y.rate - y.low, y_up = y.high - y.rate;
    r.difference = (double)(won - lost) / (double)n;
    r.low = r.difference - sqrt(x_down * x_down - 2 * phi * x_down * y_up + y_up * y_up);
    r.high = r.difference + sqrt(x_up * x_up - 2 * phi * x_up * y_down + y_down * y_down);
    r.p = fmin(1, 2 * lower_tail(won < lost ? won : lost, won + lost));
    return r;
}

void mf_paired_text(const struct mf_paired *p, char *difference, char *won, char *value, size_t size)
{
    snprintf(difference, size, "%+.3f [%+.3f, %+.3f]", p->difference, p->low, p->high);
    snprintf(won, size, "%lld:%lld", (long long)p->won, (long long)p->lost);
    snprintf(value, size, "%.2g", p->p);
}

void mf_paired_json(json_t *to, const struct mf_paired *p)
{
    json_t *j =
        p ? json_pack("{s:f, s:f, s:f, s:I, s:I, s:f}", "difference", p->difference, "difference_low", p->low,
                      "difference_high", p->high, "won", (json_int_t)p->won, "lost", (json_int_t)p->lost, "p", p->p)
          : json_pack("{s:n, s:n, s:n, s:n, s:n, s:n}", "difference", "difference_low", "difference_high", "won",
                      "lost", "p");
    json_object_update(to, j);
    json_decref(j);
}
