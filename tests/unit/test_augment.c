/* Augmented pictures: PyTorch's numbers with draws that are given (tests/reference/augment.py), and what is drawn. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/augment.h"
#include "fixture.h"
#include "tap.h"

enum { CASES = 5 };

static struct fixture f;

/* Bytes are the numbers, rounded. */
static void picture(int i)
{
    size_t n = 0;
    float *d = fixture_case(&f, i, "draws", NULL), *from = fixture_case(&f, i, "from", &n),
          *to = fixture_case(&f, i, "to", NULL), *scratch = calloc(2 * n, sizeof *scratch);
    const struct mf_obs o = {"image", {(int)d[0], (int)d[1], 3}, true};
    const struct mf_augment a = {.top = (int)d[2],
                                 .left = (int)d[3],
                                 .height = (int)d[4],
                                 .width = (int)d[5],
                                 .turn = d[6],
                                 .brightness = d[7],
                                 .contrast = d[8],
                                 .saturation = d[9]};
    uint8_t *bytes = calloc(n, 1);
    double worst = 0;
    int changed = 0;
    for (size_t k = 0; k < n; k++)
        bytes[k] = (uint8_t)from[k];
    mf_augment_picture(&o, &a, bytes, scratch);
    for (size_t k = 0; k < n; k++) {
        worst = worse(worst, fabs((double)bytes[k] - (double)to[k]));
        changed += bytes[k] != (uint8_t)from[k];
    }
    ok(worst < .501 && changed > (int)n / 2, "%d x %d: PyTorch's picture, %.4f at most beside it", o.dim[1], o.dim[0],
       worst);
    free(d), free(from), free(to), free(scratch), free(bytes);
}

static bool within(float x, float low, float high, float *least, float *most)
{
    *least = fminf(*least, x);
    *most = fmaxf(*most, x);
    return x >= low && x <= high;
}

/* All of a range is drawn, and nothing beyond. */
static void draws(void)
{
    static const char *const name[] = {"image", "robot0_eye_in_hand_image", "wrist_image"};
    for (int k = 0; k < 3; k++) {
        struct mf_obs o = {"", {40, 20, 3}, true};
        float least[6], most[6];
        int outside = 0;
        strcpy(o.name, name[k]);
        for (int i = 0; i < 6; i++)
            least[i] = INFINITY, most[i] = -INFINITY;
        for (uint32_t i = 0; i < 2000; i++) {
            struct mf_rng rng = mf_rng_at(1, MF_RNG_AUGMENT, 0, 0, i);
            const struct mf_augment a = mf_augment_draw(&o, &rng);
            outside +=
                a.height != (k ? 0 : 38) || a.width != (k ? 0 : 19) ||
                !within((float)a.top, 0, 2, &least[0], &most[0]) || !within((float)a.left, 0, 1, &least[1], &most[1]) ||
                !within(a.turn, -5, 5, &least[2], &most[2]) || !within(a.brightness, .7f, 1.3f, &least[3], &most[3]) ||
                !within(a.contrast, .6f, 1.4f, &least[4], &most[4]) ||
                !within(a.saturation, .5f, 1.5f, &least[5], &most[5]);
        }
        ok(outside == 0 && most[3] - least[3] > .59f && most[4] - least[4] > .79f && most[5] - least[5] > .99f &&
               (k ? most[0] + most[1] + most[2] - least[2] == 0
                  : most[0] - least[0] == 2 && most[1] - least[1] == 1 && most[2] - least[2] > 9.9f),
           "%s: %s", o.name, k ? "its view stays, its colors change" : "window, angle and colors");
    }
}

/* Each picture by its own draw, the same again from the same stream; what is no color picture stays. */
static void observation(void)
{
    const struct mf_layout l = {
        4,
        1 + 2 * 75 + 16,
        {{"x", {1}, false}, {"a", {10, 10, 3}, true}, {"b", {10, 10, 3}, true}, {"d", {4, 4, 1}, false}}};
    float flat[1 + 2 * 75 + 16], again[1 + 2 * 75 + 16], before[1 + 2 * 75 + 16], scratch[600];
    uint8_t rgb[300];
    for (int i = 0; i < 300; i++)
        rgb[i] = (uint8_t)(7 * i);
    for (int i = 0; i < l.dim; i++)
        before[i] = (float)i;
    for (int k = 0; k < 2; k++)
        mf_obs_pack(&l.key[1], rgb, before + 1 + 75 * k);
    memcpy(flat, before, sizeof flat);
    memcpy(again, before, sizeof again);
    ok(mf_augment_room(&l) == 600, "the scratch holds the largest picture twice, as numbers");
    mf_augment(&l, mf_rng_at(1, MF_RNG_AUGMENT, 0, 2, 3), flat, scratch);
    mf_augment(&l, mf_rng_at(1, MF_RNG_AUGMENT, 0, 2, 3), again, scratch);
    ok(!memcmp(flat, again, sizeof flat) && memcmp(flat + 1, flat + 76, 300) != 0 &&
           memcmp(flat + 1, before + 1, 300) != 0,
       "the same stream gives the same pictures, each its own");
    ok(flat[0] == before[0] && !memcmp(flat + 151, before + 151, 16 * sizeof *flat), "numbers and depth stay");
    memcpy(again, before, sizeof again);
    mf_augment(&l, mf_rng_at(1, MF_RNG_AUGMENT, 0, 2, 4), again, scratch);
    ok(memcmp(flat, again, sizeof flat) != 0, "the next step's are others");
}

int main(void)
{
    f = fixture_load("tests/fixtures/augment.bin");
    for (int i = 0; i < CASES; i++)
        picture(i);
    draws();
    observation();
    free(f.bytes);
    return done();
}
