#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *mf_number(char to[MF_NUMBER], const char *format, double v)
{
    if (isnan(v))
        snprintf(to, MF_NUMBER, "-");
    else
        snprintf(to, MF_NUMBER, format, v);
    return to;
}

const char *mf_number_double(char to[MF_NUMBER], double v)
{
    int digits = 15;
    do
        snprintf(to, MF_NUMBER, "%.*g", digits, v);
    while (strtod(to, NULL) != v && ++digits <= 17);
    return to;
}

const char *mf_number_float(char to[MF_NUMBER], float v)
{
    int digits = 6;
    do
        snprintf(to, MF_NUMBER, "%.*g", digits, (double)v);
    while (strtof(to, NULL) != v && ++digits <= 9);
    return to;
}

float mf_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float v = exponent == 31 ? (fraction ? NAN : INFINITY)
                             : ldexpf((float)(fraction + (exponent ? 1024 : 0)), (exponent ? exponent : 1) - 25);
    return bits >> 15 ? -v : v;
}

float mf_bfloat(uint16_t bits)
{
    const uint32_t whole = (uint32_t)bits << 16;
    float v;
    memcpy(&v, &whole, sizeof v);
    return v;
}
