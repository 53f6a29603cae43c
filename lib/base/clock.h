/* clock.h - wall-clock time and CPU time. */
#ifndef MF_BASE_CLOCK_H
#define MF_BASE_CLOCK_H

double mf_now(void);     /* monotonic wall-clock time, s */
double mf_now_cpu(void); /* CPU time of all threads of this process, s */

#endif
