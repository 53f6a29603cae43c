/* number.h - numbers for people, who are never shown a NaN. */
#ifndef MF_BASE_NUMBER_H
#define MF_BASE_NUMBER_H

enum { MF_NUMBER = 32 }; /* bytes of a number as text */

/* v as the format says, "%.3f" or "%.1f %%"; "-" for NaN, which stands for: there is no value. In `to`, which is
 * returned. */
const char *mf_number(char to[MF_NUMBER], const char *format, double v);

#endif
