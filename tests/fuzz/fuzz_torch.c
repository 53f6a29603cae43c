/* The reader of PyTorch's files on any bytes: what it accepts can be read whole. They are a file when they begin as
 * one, and else the pickle of one.
 *
 * rooms: import
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "import/torch.h"
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

static void read_file(const uint8_t *data, size_t size)
{
    struct mf_torch f;
    struct mf_err err;
    if (mf_torch_parse(&f, data, size, "input", &err) == 0) {
        read_all(&f);
        mf_torch_close(&f);
    }
}

static void add(zip_t *to, const char *name, const void *data, size_t size)
{
    if (zip_file_add(to, name, zip_source_buffer(to, data, size, 0), 0) < 0)
        abort();
}

/* One storage of 64 bytes stands for all that the pickle may name. */
static void pickle_alone(const uint8_t *data, size_t size)
{
    static const uint8_t bytes[64];
    static uint8_t file[1 << 18];
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, NULL);
    zip_source_keep(source);
    zip_t *to = zip_open_from_source(source, ZIP_TRUNCATE, NULL);
    add(to, "r/data.pkl", data, size);
    add(to, "r/data/0", bytes, sizeof bytes);
    for (zip_uint64_t i = 0; i < 2; i++)
        zip_set_file_compression(to, i, ZIP_CM_STORE, 0);
    if (zip_close(to) || zip_source_open(source))
        abort();
    const zip_int64_t n = zip_source_read(source, file, sizeof file);
    zip_source_close(source);
    zip_source_free(source);
    read_file(file, (size_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (size < 2 || memcmp(data, "PK", 2) ? pickle_alone : read_file)(data, size);
    return 0;
}
