/* Two policies on the same trials: intervals and probabilities that agree with the literature and with other means. */
#include "eval/paired.h"
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

int main(void)
{
    tables();
    many();
    return done();
}
