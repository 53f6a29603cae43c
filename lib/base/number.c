#include "base/number.h"

#include <math.h>
#include <stdio.h>

const char *mf_number(char to[MF_NUMBER], const char *format, double v)
{
    if (isnan(v))
        snprintf(to, MF_NUMBER, "-");
    else
        snprintf(to, MF_NUMBER, format, v);
    return to;
}
