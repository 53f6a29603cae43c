/* bf16.h - bfloat16 numbers of files: the upper half of a float. They may be unaligned. */
#ifndef MF_BASE_BF16_H
#define MF_BASE_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void mf_floats_of_bf16(size_t n, const void *from, float *to)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)from + i * sizeof half, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

#endif
