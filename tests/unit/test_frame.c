#include <stdlib.h>
#include <string.h>

#include "data/frame.h"
#include "tap.h"

static const uint8_t numpy49[] = {
    0x85, 0xc4, 2,   'n', 'd', 0xc3, 0xc4, 4,   't',  'y',  'p', 'e', 0xa3, '<', 'f', '4',  0xc4, 4, 'k', 'i', 'n', 'd', 0xc4, 0,    0xc4,
    5,    's',  'h', 'a', 'p', 'e',  0x91, 2,   0xc4, 4,    'd', 'a', 't',  'a', 0xc4, 8,   0,    0, 0x80, 0x3f, 0,  0,   0,    0x40,
};

static void exact_ndarray(void)
{
    struct mf_err err;
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT), *g;
    void *data, *bytes;
    size_t len;
    mf_frame_set_int(f, "iter", 7);
    ok(!mf_frame_add(f, "x", MF_F32, 1, (size_t[]){2}, &data, &err), "an array is added");
    ((float *)data)[0] = 1;
    ((float *)data)[1] = 2;
    ok(!mf_frame_encode(f, &bytes, &len, &err), "the frame encodes");
    ok(len > 49 && !memcmp((char *)bytes + len - 49, numpy49, 49), "np.array([1, 2], '<f4') is msgpack-numpy's 49 bytes");
    ok(!mf_frame_decode(&g, bytes, len, &err), "and decodes");
    struct mf_array *a = mf_frame_find(g, "x");
    int64_t iter = 0;
    ok(a && a->count == 2 && ((float *)a->data)[1] == 2 && (size_t)a->data % 8 == 0, "the array is there, aligned");
    ok(!mf_frame_get_int(g, "iter", &iter, &err) && iter == 7, "and the field");
    free(bytes);
    mf_frame_free(f);
    mf_frame_free(g);
}

int main(void)
{
    exact_ndarray();
    return done();
}
