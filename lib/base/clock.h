/* clock.h - how long something took. */
#ifndef MF_BASE_CLOCK_H
#define MF_BASE_CLOCK_H

double mf_now(void); /* seconds since some moment; never goes back */

#endif
