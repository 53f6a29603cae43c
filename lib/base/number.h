/* number.h - numbers as text, and float16. */
#ifndef MF_BASE_NUMBER_H
#define MF_BASE_NUMBER_H

#include <stdint.h>

enum { MF_NUMBER = 32 }; /* bytes of a number as text */

/* v as the format says, "%.3f" or "%.1f %%"; "-" for NaN, which stands for: there is no value. In `to`, which is
 * returned. */
const char *mf_number(char to[MF_NUMBER], const char *format, double v);
/* The fewest digits, of at least 15, that read back as v; of at least 6 that do as a float32, which v is. */
const char *mf_number_double(char to[MF_NUMBER], double v);
const char *mf_number_float(char to[MF_NUMBER], float v);

float mf_half(uint16_t bits); /* an IEEE float16 */

#endif
