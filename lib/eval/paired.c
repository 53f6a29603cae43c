#include "eval/paired.h"

#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "eval/eval.h"
#include "eval/student.h"
#include "stream/json.h"

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

const char *const mf_measure_names[] = {"success", "return"};

void mf_pairs_add(struct mf_pairs *p, bool first_succeeded, double first_return, bool succeeded, double ret)
{
    p->count[first_succeeded][succeeded]++;
    p->higher += ret > first_return;
    p->lower += ret < first_return;
    mf_moments_add(&p->difference, ret - first_return);
}

struct mf_paired mf_pairs_compare(const struct mf_pairs *p, enum mf_measure of)
{
    if (p->difference.n == 0)
        return (struct mf_paired){.n = 0};
    if (of == MF_SUCCESS)
        return mf_pair(p->count[1][1], p->count[0][1], p->count[1][0], p->count[0][0]);
    const struct mf_mean m = mf_moments_mean(&p->difference);
    return (struct mf_paired){.of = of,
                              .n = (int64_t)p->difference.n,
                              .won = p->higher,
                              .lost = p->lower,
                              .difference = m.mean,
                              .low = m.low,
                              .high = m.high,
                              .p = m.p};
}

enum mf_measure mf_measure_of(int64_t trials, int64_t succeeded)
{
    return trials && !succeeded ? MF_RETURN : MF_SUCCESS;
}

void mf_paired_text(const struct mf_paired *p, char *difference, char *won, char *value, size_t size)
{
    const int digits = mf_mean_digits(p->difference);
    int n = snprintf(difference, size, "%+.*f", digits, p->difference);
    if (!isnan(p->low)) /* as of a single trial */
        snprintf(difference + n, size - (size_t)n, " [%+.*f, %+.*f]", digits, p->low, digits, p->high);
    snprintf(won, size, "%lld:%lld", (long long)p->won, (long long)p->lost);
    char number[MF_NUMBER];
    snprintf(value, size, "%s", mf_number(number, "%.2g", p->p));
}

void mf_paired_json(json_t *to, const struct mf_paired *p)
{
    json_t *j = p ? json_pack("{s:o, s:o, s:o, s:I, s:I, s:o}", "difference", mf_json_number(p->difference),
                              "difference_low", mf_json_number(p->low), "difference_high", mf_json_number(p->high),
                              "won", (json_int_t)p->won, "lost", (json_int_t)p->lost, "p", mf_json_number(p->p))
                  : json_pack("{s:n, s:n, s:n, s:n, s:n, s:n}", "difference", "difference_low", "difference_high",
                              "won", "lost", "p");
    json_object_update(to, j);
    json_decref(j);
}
