/* Weights of 2-D convolutions from a checkpoint to PyTorch's file and back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/conv2d.h"
#include "policies.h"

enum { OUT = 3, KH = 2, KW = 4, IN = 5, N = OUT * KH * KW * IN };

static float number(size_t o, size_t i, size_t j, size_t c)
{
    return (float)(1000 * o + 100 * i + 10 * j + c);
}

int main(void)
{
    char path[] = "/tmp/mf-test-XXXXXX";
    struct mf_err err;
    char bytes[sizeof(float) * N + 1];
    float got[N], *room, *at;
    struct mf_array a[2] = {
        {.name = "w", .rank = 4, .dim = {OUT, KH, KW, IN}, .dtype = MF_F32, .count = N, .bytes = sizeof got},
        {.name = "b", .rank = 1, .dim = {2}, .dtype = MF_F32, .count = 2, .bytes = 8, .data = (float[]){1, 2}}};
    for (size_t k = 0; k < N; k++)
        got[k] = number(k / (KH * KW * IN), k / (KW * IN) % KH, k / IN % KW, k % IN);
    memcpy(bytes + 1, got, sizeof got);
    a[0].data = bytes + 1; /* as in a mapped file */
    must(mf_conv2d_export(a, 2, &room, &err), &err);
    ok(!memcmp(a[0].dim, (size_t[]){OUT, IN, KH, KW}, 4 * sizeof *a[0].dim) && *(float *)a[1].data == 1.0f,
       "only the convolution gets PyTorch's shape");
    bool good = true;
    at = a[0].data;
    for (size_t o = 0; o < OUT; o++)
        for (size_t c = 0; c < IN; c++)
            for (size_t i = 0; i < KH; i++)
                for (size_t j = 0; j < KW; j++)
                    good = good && *at++ == number(o, i, j, c);
    ok(good, "and its order");

    struct mf_torch f;
    struct mf_param p = {.rows = OUT, .cols = KH * KW * IN, .rank = 4, .window = {KH, KW}};
    size_t dim[4];
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    must(mf_torch_write(path, a, 2, &err), &err);
    must(mf_torch_open(&f, path, &err), &err);
    const struct mf_torch_tensor *t = strcmp(f.tensor[0].name, "w") ? &f.tensor[1] : &f.tensor[0],
                                 ours = mf_conv2d_import(t);
    ok(mf_torch_shape(&p, dim) == 4 && !memcmp(dim, t->dim, sizeof dim), "a parameter's shape in the file");
    for (size_t from = 0; from < N; from += 7) /* in pieces that end within a window */
        must(mf_torch_read(&f, &ours, from, N - from < 7 ? N - from : 7, got + from, &err), &err);
    ok(!memcmp(got, bytes + 1, sizeof got), "the file gives the same numbers in our order");
    must(mf_torch_read(&f, t, 0, N, got, &err), &err);
    ok(!memcmp(got, room, sizeof got), "and its own order, as it lies there");
    mf_torch_close(&f);
    unlink(path);
    free(room);
    return done();
}
