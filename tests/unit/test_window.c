/* Windows of observations: the control steps that a decision showed, in order, and nothing of an episode before. */
#include <string.h>

#include "env/window.h"
#include "tap.h"

enum { N = 3, TO = 3, O = 2 };

static bool is(const float *w, float oldest, float between, float newest)
{
    const float want[TO * O] = {oldest, -oldest, between, -between, newest, -newest};
    return !memcmp(w, want, sizeof want);
}

int main(void)
{
    float w[N * TO * O] = {0};
    const float first[N * O] = {1, -1, 2, -2, 3, -3}, next[N * O] = {13, -13, 22, -22, 31, -31};
    const float trail[N * (TO - 1) * O] = {11, -11, 12, -12, 21, -21, 0, 0, 0, 0, 0, 0};
    const int32_t n_trail[N] = {2, 1, 0};
    const uint8_t fresh[N] = {0, 0, 1};
    struct mf_decision d = {.fresh = fresh, .trail = trail, .n_trail = n_trail};

    mf_windows_push(w, N, TO, O, NULL, first);
    ok(is(w, 1, 1, 1) && is(w + TO * O, 2, 2, 2) && is(w + 2 * TO * O, 3, 3, 3),
       "an episode begins with its first one");
    mf_windows_push(w, N, TO, O, &d, next);
    ok(is(w, 11, 12, 13), "of three control steps all are there");
    ok(is(w + TO * O, 2, 21, 22), "of two, the newest previous observation");
    ok(is(w + 2 * TO * O, 31, 31, 31), "where an episode began, nothing of the last one");
    mf_window_follow(w + TO * O, TO, O, &d, 1, next);
    ok(is(w + TO * O, 22, 21, 13), "one environment's window, up to another last one");

    float one[N * O];
    d.trail = NULL; /* as environments in other processes have none */
    mf_windows_push(one, N, 1, O, &d, next);
    ok(!memcmp(one, next, sizeof one), "of one step, the next observation");
    return done();
}
