/* The reader of PyTorch's files on any bytes: what it accepts can be read whole. They are a file when they begin as
 * one, and else the pickle of one.
 *
 * rooms: import
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/torch_priv.h"
#include "import/torch_show.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(struct mf_torch *f)
{
    struct mf_err err;
    float x[64];
    for (int i = 0; i < f->n; i++) {
        const struct mf_torch_tensor *t = &f->tensor[i];
        size_t n = t->count < 64 ? t->count : 64;
        if (t->dtype->number && (mf_torch_read(f, t, 0, n, x, &err) || mf_torch_read(f, t, t->count - n, n, x, &err)))
            return; /* a deflated storage that is none */
    }
    FILE *none = fopen("/dev/null", "w");
    mf_torch_show(f, true, none);
    mf_torch_show(f, false, none);
    fclose(none);
}

/* One storage of 64 bytes stands for all that the pickle may name. */
static void pickle_alone(const uint8_t *data, size_t size)
{
    static const uint8_t bytes[64];
    static char path[] = "input";
    struct mf_torch f = {0};
    struct mf_zip_entry entry = {.name = "r/data/0", .name_size = 8, .data = bytes, .packed = 64, .size = 64};
    struct mf_pickle p;
    struct mf_err err;
    if (mf_pickle_parse(&p, data, size, size, "input", &err))
        return;
    f.zip = (struct mf_zip){.n = 1, .entry = &entry, .path = path, .fd = -1};
    if (mf_torch_walk(&f, p.root, "r", &err) == 0)
        read_all(&f);
    mf_pickle_release(&p);
    f.zip = (struct mf_zip){0};
    mf_torch_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mf_torch f;
    struct mf_err err;
    if (size < 2 || memcmp(data, "PK", 2)) {
        pickle_alone(data, size);
    } else if (mf_torch_parse(&f, data, size, "input", &err) == 0) {
        read_all(&f);
        mf_torch_close(&f);
    }
    return 0;
}
