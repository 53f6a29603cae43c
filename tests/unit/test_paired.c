/* Two policies on the same trials: intervals and probabilities that agree with the literature and with other means. */
#include "eval/paired.h"
#include <string.h>

#include "tap.h"

/* Newcombe, Statistics in Medicine 17 (1998) 2635, and Altman et al., Statistics with Confidence (2000), table 6.2, to
 * the digits that they print (.011 to .226; .057 to .340); the same and others from tests/reference/paired.py. */
static void tables(void)
{
    static const struct {
        int both, won, lost, neither;
        double difference, low, high, p;
    } row[] = {{14, 5, 0, 22, 0.121951219512, 0.011483241383, 0.226492684351, 0.0625},
               {36, 12, 2, 0, 0.2, 0.0569295840032, 0.340427602975, 0.012939453125},
               {2, 12, 30, 6, -0.36, -0.563164529951, -0.110310767437, 0.0079158973349},
               {100, 60, 21, 75, 0.15234375, 0.0848211414292, 0.217426012729, 1.69358312159e-05},
               {0, 8, 0, 0, 1, 0.541218422005, 1, 0.0078125},
               {0, 0, 0, 5, 0, -0.434482464783, 0.434482464783, 1},
               {7, 3, 3, 7, 0, -0.237473799225, 0.237473799225, 1}};
    for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
        struct mf_paired r = mf_pair(row[i].both, row[i].won, row[i].lost, row[i].neither),
                         back = mf_pair(row[i].both, row[i].lost, row[i].won, row[i].neither);
        ok(r.n == row[i].both + row[i].won + row[i].lost + row[i].neither, "%d:%d of %lld trials", row[i].won,
           row[i].lost, (long long)r.n);
        near(r.difference, row[i].difference, 1e-11, "difference");
        near(r.low, row[i].low, 1e-10, "its interval's low end");
        near(r.high, row[i].high, 1e-10, "and high end");
        ok(fabs(r.p / row[i].p - 1) < 1e-9, "McNemar's p %.12g", r.p);
        ok(fabs(back.low + r.high) < 1e-12 && fabs(back.high + r.low) < 1e-12 && back.p == r.p, "and mirrored");
    }
}

/* Many trials: no overflow, and p near the normal limit 2 Phi(-(|b-c|-1)/sqrt(b+c)). */
static void many(void)
{
    struct mf_paired r = mf_pair(4000000, 1001000, 999000, 4000000);
    near(r.p, erfc(1999 / sqrt(2e6) / sqrt(2)), 1e-4, "p of ten million trials");
}

static double number(int row, int i)
{
    static const double few[3][7] = {{1, 2}, {3, -1, 2}, {5, 1, -2, 4, 0, 3, 7}};
    return row < 3 ? few[row][i] : row == 3 ? i % 17 - 7.5 : 1 + i % 3;
}

/* Differences in return without a success, against tests/reference/paired.py. */
static void returns(void)
{
    static const struct {
        int n;
        double mean, low, high, p;
    } row[] = {{2, 1.5, -4.85310236809, 7.85310236809, 0.204832764699},
               {3, 1.33333333333, -3.83781167921, 6.50447834588, 0.382786600152},
               {7, 2.57142857143, -0.296942552138, 5.439799695, 0.0707230619698},
               {256, 0.46875, -0.137358117813, 1.07485811781, 0.128993026273},
               {64, 1.984375, 1.7780439701, 2.1907060299, 4.82505395018e-28}};
    for (int r = 0; r < 5; r++) {
        struct mf_pairs p = {0};
        int won = 0, lost = 0;
        for (int i = 0; i < row[r].n; i++) {
            mf_pairs_add(&p, false, 10 + i, false, 10 + i + number(r, i));
            won += number(r, i) > 0;
            lost += number(r, i) < 0;
        }
        const struct mf_paired m = mf_pairs_compare(&p, mf_measure_of(row[r].n, 0));
        ok(m.of == MF_RETURN && m.n == row[r].n && m.won == won && m.lost == lost, "returns, %d:%d", won, lost);
        near(m.difference, row[r].mean, 1e-10, "their mean difference");
        near(m.low, row[r].low, 1e-9, "its low end");
        near(m.high, row[r].high, 1e-9, "its high end");
        ok(fabs(m.p / row[r].p - 1) < 1e-9, "p %.12g", m.p);
    }
}

static void measures(void)
{
    struct mf_pairs p = {0};
    ok(mf_pairs_compare(&p, MF_SUCCESS).n == 0 && mf_pairs_compare(&p, MF_RETURN).n == 0, "of no trial, nothing");
    mf_pairs_add(&p, false, 2, false, 2);
    const struct mf_paired one = mf_pairs_compare(&p, MF_RETURN);
    ok(one.difference == 0 && isnan(one.low) && isnan(one.p), "one trial has no interval");
    char difference[64], won[64], value[64];
    mf_paired_text(&one, difference, won, value, sizeof won);
    ok(!strcmp(difference, "+0.000") && !strcmp(won, "0:0") && !strcmp(value, "-"), "as text: %s, %s, %s", difference,
       won, value);
    mf_pairs_add(&p, false, 3, false, 3);
    const struct mf_paired same = mf_pairs_compare(&p, MF_RETURN);
    ok(same.low == 0 && same.high == 0 && same.p == 1 && same.won + same.lost == 0, "equal returns differ by 0, p = 1");
    mf_pairs_add(&p, false, 3, true, 4);
    ok(mf_measure_of(3, 1) == MF_SUCCESS && mf_pairs_compare(&p, MF_SUCCESS).won == 1, "a success is what counts");
    ok(mf_measure_of(0, 0) == MF_SUCCESS, "and of no trial at all");
}

int main(void)
{
    tables();
    many();
    returns();
    measures();
    return done();
}
