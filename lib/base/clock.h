/* clock.h - how long something took. */
#ifndef MF_BASE_CLOCK_H
#define MF_BASE_CLOCK_H

double mf_now(void);     /* seconds since some moment; never goes back */
double mf_now_cpu(void); /* seconds that the threads of this process have worked, all together */

#endif
