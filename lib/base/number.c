#include "base/number.h"

#include <math.h>
#include <stdio.h>

const char *mf_number(char to[MF_NUMBER], const char *format, double v)
{
    snprintf(to, MF_NUMBER, isnan(v) ? "-" : format, v);
    return to;
}
