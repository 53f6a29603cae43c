/* Random shift and crop: where each pixel of a moved picture comes from, and what is drawn. */
#include <stdlib.h>
#include <string.h>

#include "base/shift.h"
#include "tap.h"

enum { H = 6, W = 5, C = 3 };

static int at(int x, int size)
{
    return x < 0 ? 0 : x >= size ? size - 1 : x;
}

/* Every pixel names its place. */
static void every_move(void)
{
    const struct mf_obs color = {"image", {H, W, C}, true}, depth = {"depth", {H, W, 1}, false};
    uint8_t rgb[H * W * C];
    float flat[H * W * C], moved[H * W * C], far[H * W], near_[H * W];
    int wrong = 0;
    for (int i = 0; i < H * W * C; i++)
        rgb[i] = (uint8_t)i;
    for (int i = 0; i < H * W; i++)
        far[i] = (float)i;
    mf_obs_pack(&color, rgb, flat);
    for (int dy = -H - 1; dy <= H + 1; dy++)
        for (int dx = -W - 1; dx <= W + 1; dx++) {
            mf_shift_picture(&color, dy, dx, flat, moved);
            mf_shift_picture(&depth, dy, dx, far, near_);
            for (int i = 0; i < H; i++)
                for (int j = 0; j < W; j++) {
                    const int from = at(i + dy, H) * W + at(j + dx, W);
                    wrong += near_[i * W + j] != (float)from;
                    for (int c = 0; c < C; c++)
                        wrong += ((const uint8_t *)moved)[(i * W + j) * C + c] != from * C + c;
                }
        }
    ok(wrong == 0, "a pixel is that of the picture, clamped to its edges, for every move");
}

static void draws(void)
{
    const struct mf_layout l = {2, 4 + 16, {{"state", {4}, false}, {"image", {8, 8, 1}, true}}};
    float flat[20], scratch[16];
    uint8_t rgb[64];
    int reached[9][9] = {{0}}, n = 0, windows[5] = {0}, outside = 0;
    bool kept = true;
    ok(mf_shift_room(&l) == 16, "the scratch holds the largest picture, packed");
    for (int i = 0; i < 64; i++)
        rgb[i] = (uint8_t)i;
    for (uint32_t k = 0; k < 4000; k++) {
        flat[2] = 7;
        mf_obs_pack(&l.key[1], rgb, flat + 4);
        mf_shift(&(struct mf_shift){.reach = 2}, &l, mf_rng_at(1, MF_RNG_SHIFT, 0, 0, k), flat, scratch);
        kept = kept && flat[2] == 7;
        const int middle = ((const uint8_t *)(flat + 4))[4 * 8 + 4]; /* (4, 4) is (4 + dy, 4 + dx) */
        reached[middle / 8][middle % 8]++;
    }
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            n += reached[i][j] > 100;
    ok(n == 25 && kept, "reach 2: all 25 moves are drawn about alike, and nothing but pictures moves");
    for (uint32_t k = 0; k < 400; k++) {
        mf_obs_pack(&l.key[1], rgb, flat + 4);
        mf_shift(&(struct mf_shift){.crop = 4}, &l, mf_rng_at(1, MF_RNG_SHIFT, 0, 0, k), flat, scratch);
        const int first = mf_crop_center(8, 4), corner = ((const uint8_t *)(flat + 4))[first * 8 + first];
        outside += corner / 8 > 3 || corner % 8 > 3;
        windows[at(corner / 8, 5)]++;
    }
    ok(outside == 0 && windows[0] > 60 && windows[3] > 60 && windows[4] == 0,
       "crop 4 of 8: the centered window shows one of 0..3, the last place never");
    ok(mf_crop_center(84, 76) == 4 && mf_crop_center(7, 4) == 2 && mf_crop_center(5, 4) == 0 &&
           mf_crop_center(9, 9) == 0,
       "the center is rounded to even");
}

int main(void)
{
    every_move();
    draws();
    return done();
}
