/* smaller.h - the smaller of two counts, and the nearest to a count within two. */
#ifndef MF_BASE_SMALLER_H
#define MF_BASE_SMALLER_H

#include <stddef.h>

static inline size_t mf_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t mf_between(size_t x, size_t least, size_t most)
{
    return x < least ? least : x > most ? most : x;
}

#endif
