/* Resized pictures: bytes as Pillow's, numbers as PyTorch's (tests/reference/resize.py). */
#include <stdbool.h>

#include "base/resize.h"
#include "fixture.h"
#include "tap.h"

enum { SIDE = 12, PICTURES = 7, N = SIDE * SIDE * 3 };

static struct fixture f;
static struct mf_err err;

static float *record(int i, const char *name, size_t *n)
{
    char key[32];
    snprintf(key, sizeof key, "%d/%s", i, name);
    return fixture_find(&f, key, n);
}

static void picture(int i)
{
    size_t n;
    float *size = record(i, "size", NULL), *from = record(i, "from", &n), *bytes = record(i, "bytes", NULL),
          *floats = record(i, "floats", NULL), got[N];
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

int main(void)
{
    struct mf_resize r;
    f = fixture_load("tests/fixtures/resize.bin");
    for (int i = 0; i < PICTURES; i++)
        picture(i);
    ok(mf_resize_init(&r, 300, 1, SIDE, SIDE, false, &err) == MF_EUSAGE, "%s", err.text);
    free(f.bytes);
    return done();
}
