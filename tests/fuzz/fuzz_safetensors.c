/* The safetensors reader on any bytes: what it accepts lies inside them. */
#include <stdlib.h>

#include "run/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mf_safetensors f;
    struct mf_err err;
    if (mf_safetensors_parse(&f, data, size, "input", &err))
        return 0;
    for (int i = 0; i < f.n; i++) {
        const uint8_t *p = f.tensors[i].data;
        if (p < data || f.tensors[i].bytes > (size_t)(data + size - p) ||
            mf_safetensors_find(&f, f.tensors[i].name) != &f.tensors[i])
            abort();
    }
    mf_safetensors_close(&f);
    return 0;
}
