#include "rl/scale.h"
#include "tap.h"

int main(void)
{
    struct mf_scale s;
    float reward[2] = {1, 3}, scaled[2];
    double running[2] = {0, 0};
    uint8_t ended[2] = {0, 1};
    mf_scale_init(&s);
    mf_scale_step(&s, 2, 0.5, reward, ended, running, scaled);
    /* counts 1e-4 and 2, means 0 and 2, variances 1 and 1 */
    double total = 2 + 1e-4, var = (1e-4 + 2 + 4 * 2e-4 / total) / total;
    near(s.var, var, 1e-12, "variance of the returns, the initial count weighed in");
    near(s.mean, 2 * 2 / total, 1e-12, "their mean");
    near(scaled[1], 3 / sqrt(var + 1e-8), 1e-6, "updated, then scaled");
    ok(running[0] == 1 && running[1] == 0, "an end resets the running return");
    mf_scale_step(&s, 2, 0.5, reward, ended, running, scaled);
    ok(running[0] == 1.5, "r + gamma ret");
    s.var = 1e-6;
    s.count = 1e12;
    mf_scale_step(&s, 2, 0.5, reward, ended, running, scaled);
    ok(scaled[1] == 10, "within 10 deviations");
    return done();
}
