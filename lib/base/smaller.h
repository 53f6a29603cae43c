/* smaller.h - the smaller of two counts. */
#ifndef MF_BASE_SMALLER_H
#define MF_BASE_SMALLER_H

#include <stddef.h>

static inline size_t mf_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
