#include "rl/scale.h"
#include "tap.h"

static const uint8_t all[2] = {1, 1};

/* An episode, the row in which a server resets, and another: the reset row is in no statistic. */
static void masked(void)
{
    static const float reward[] = {1, 1, 7, 1, 2}, want[] = {10, 2.0196f, 0, 2.1423f, 2.4252f};
    static const uint8_t valid[] = {1, 1, 0, 1, 1}, ended[] = {0, 1, 0, 0, 0};
    struct mf_scale s;
    double running = 0;
    float scaled;
    mf_scale_init(&s);
    for (int t = 0; t < 5; t++) {
        mf_scale_step(&s, 1, 0.99, &reward[t], &valid[t], &ended[t], &running, &scaled);
        near(scaled, want[t], 1e-4, valid[t] ? "a transition's scaled reward" : "a reset row's is 0");
    }
    near(s.count, 4 + 1e-4, 1e-12, "four rows were counted");

    /* beside a valid one: as if the valid one were alone */
    struct mf_scale one, two;
    double ran[2] = {0, 5}, alone = 0;
    float out[2], r[2] = {3, NAN};
    mf_scale_init(&one);
    mf_scale_init(&two);
    mf_scale_step(&one, 1, .5, r, all, (uint8_t[]){0}, &alone, &scaled);
    mf_scale_step(&two, 2, .5, r, (uint8_t[]){1, 0}, (uint8_t[]){0, 0}, ran, out);
    ok(one.mean == two.mean && one.var == two.var && one.count == two.count && out[0] == scaled && out[1] == 0 &&
           ran[1] == 0,
       "a masked row beside a valid one changes nothing, for any values, and ends the running return");
}

int main(void)
{
    struct mf_scale s;
    float reward[2] = {1, 3}, scaled[2];
    double running[2] = {0, 0};
    uint8_t ended[2] = {0, 1};
    mf_scale_init(&s);
    mf_scale_step(&s, 2, 0.5, reward, all, ended, running, scaled);
    /* counts 1e-4 and 2, means 0 and 2, variances 1 and 1 */
    double total = 2 + 1e-4, var = (1e-4 + 2 + 4 * 2e-4 / total) / total;
    near(s.var, var, 1e-12, "variance of the returns, the initial count weighed in");
    near(s.mean, 2 * 2 / total, 1e-12, "their mean");
    near(scaled[1], 3 / sqrt(var + 1e-8), 1e-6, "updated, then scaled");
    ok(running[0] == 1 && running[1] == 0, "an end resets the running return");
    mf_scale_step(&s, 2, 0.5, reward, all, ended, running, scaled);
    ok(running[0] == 1.5, "r + gamma ret");
    s.var = 1e-6;
    s.count = 1e12;
    mf_scale_step(&s, 2, 0.5, reward, all, ended, running, scaled);
    ok(scaled[1] == 10, "within 10 deviations");
    masked();
    return done();
}
