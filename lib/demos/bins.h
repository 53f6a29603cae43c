/* bins.h - quantiles of numbers by a histogram, as those of openpi's norm_stats.json.
 *
 * The range [low, high] is known first, so that a quantile does not depend on the order of the numbers; openpi's, which
 * spreads its counts anew when the range grows, is the same where its first batch has the range. Zeroed, with low and
 * high: of none.
 */
#ifndef MF_DEMOS_BINS_H
#define MF_DEMOS_BINS_H

#include <stdint.h>

enum { MF_BINS = 5000 };

struct mf_bins {
    double low, high;
    uint64_t n, count[MF_BINS];
};

static inline double mf_bins_edge(const struct mf_bins *b, int i)
{
    return b->low + i * ((b->high - b->low) / MF_BINS);
}

/* x within [low, high]: counted in the bin with edge(i) <= x < edge(i + 1). */
static inline void mf_bins_add(struct mf_bins *b, double x)
{
    const double width = (b->high - b->low) / MF_BINS;
    int i = width > 0 ? (int)((x - b->low) / width) : 0;
    i = i < MF_BINS ? i : MF_BINS - 1;
    while (i > 0 && x < mf_bins_edge(b, i))
        i--;
    while (i + 1 < MF_BINS && x >= mf_bins_edge(b, i + 1))
        i++;
    b->count[i]++;
    b->n++;
}

/* The lower edge of the first bin up to which there are q n numbers, 0 < q <= 1. */
static inline double mf_bins_quantile(const struct mf_bins *b, double q)
{
    uint64_t sum = 0;
    int i = -1;
    while (i + 1 < MF_BINS && (double)sum < q * (double)b->n)
        sum += b->count[++i];
    return mf_bins_edge(b, i < 0 ? 0 : i);
}

#endif
