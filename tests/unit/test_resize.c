/* Resized pictures: bytes as Pillow's, numbers as PyTorch's (tests/reference/resize.py). */
#include <stdbool.h>
#include <string.h>

#include "base/resize.h"
#include "fixture.h"
#include "tap.h"

enum { SIDE = 12, PICTURES = 7, N = SIDE * SIDE * 3 };

static struct fixture f;
static struct mf_err err;

static void picture(int i)
{
    size_t n = 0;
    float *size = fixture_case(&f, i, "size", NULL), *from = fixture_case(&f, i, "from", &n),
          *bytes = fixture_case(&f, i, "bytes", NULL), *floats = fixture_case(&f, i, "floats", NULL), got[N];
    uint8_t *in = malloc(n), out[N];
    struct mf_resize r;
    int different = 0;
    double worst = 0;
    if (mf_resize_init(&r, (int)size[0], (int)size[1], SIDE, SIDE, size[2] != 0, &err))
        printf("# %s\n", err.text);
    for (size_t k = 0; k < n; k++) {
        in[k] = (uint8_t)from[k];
        from[k] = from[k] / 255 * 2 - 1;
    }
    mf_resize_bytes(&r, in, out);
    mf_resize_floats(&r, from, got);
    for (int k = 0; k < N; k++) {
        different += out[k] != (uint8_t)bytes[k];
        worst = worse(worst, fabs((double)got[k] - (double)floats[k]));
    }
    ok(different == 0 && worst < 1e-6, "%.0f x %.0f%s: Pillow's bytes, PyTorch's numbers", (double)size[1],
       (double)size[0], size[2] != 0 ? " turned" : "");
    if (different || worst >= 1e-6)
        printf("# %d bytes, %g\n", different, worst);
    mf_resize_release(&r);
    free(in), free(size), free(from), free(bytes), free(floats);
}

/* An observation of a number, a picture that is turned and made smaller, and a depth that stays. */
static void observation(void)
{
    const struct mf_layout from = {
        3, 1 + 12 + 4, {{"x", {1}, false}, {"color", {4, 4, 3}, true}, {"depth", {2, 2, 1}, false}}};
    struct mf_layout to = from;
    struct mf_resizer r;
    struct mf_resize alone;
    float got[1 + 3 + 4], want[3], x = 5, depth[4] = {1, 2, 3, 4};
    uint8_t picture[48];
    mf_layout_side(&to, 2);
    for (int i = 0; i < 48; i++)
        picture[i] = (uint8_t)(5 * i);
    ok(to.dim == 1 + 3 + 4 && to.key[1].dim[0] == 2 && mf_resizer_init(&r, &from, &to, true, &err) == 0 && r.changes,
       "the pictures of an observation");
    mf_resizer_pack(&r, 0, &from.key[0], &x, got);
    mf_resizer_pack(&r, 1, &from.key[1], picture, got + 1);
    mf_resizer_pack(&r, 2, &from.key[2], depth, got + 4);
    want[2] = 0;
    mf_resize_init(&alone, 4, 4, 2, 2, true, &err);
    mf_resize_bytes(&alone, picture, (uint8_t *)want);
    ok(got[0] == 5 && !memcmp(got + 1, want, sizeof want) && !memcmp(got + 4, depth, sizeof depth),
       "as they are alone");
    mf_resize_release(&alone);
    mf_resizer_release(&r);
    to.key[2].dim[0] = 3;
    ok(mf_resizer_init(&r, &from, &to, false, &err) == MF_EUSAGE, "%s", err.text);
}

int main(void)
{
    struct mf_resize r;
    f = fixture_load("tests/fixtures/resize.bin");
    for (int i = 0; i < PICTURES; i++)
        picture(i);
    observation();
    ok(mf_resize_init(&r, 300, 1, SIDE, SIDE, false, &err) == MF_EUSAGE, "%s", err.text);
    free(f.bytes);
    return done();
}
