/* number.h - numbers as text, and float16. */
#ifndef MF_BASE_NUMBER_H
#define MF_BASE_NUMBER_H

#include <stdint.h>

enum { MF_NUMBER = 32 }; /* bytes of a number as text */

/* Prints v by the format, "%.3f" or "%.1f %%", into `to` and returns it; "-" for NaN, which means a missing value. */
const char *mf_number(char to[MF_NUMBER], const char *format, double v);
/* The fewest digits (at least 15, for a float32 at least 6) that read back as v. */
const char *mf_number_double(char to[MF_NUMBER], double v);
const char *mf_number_float(char to[MF_NUMBER], float v);

float mf_half(uint16_t bits);   /* an IEEE float16 */
float mf_bfloat(uint16_t bits); /* a bfloat16: the upper half of a float */

#endif
