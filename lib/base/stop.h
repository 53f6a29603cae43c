/* stop.h - SIGINT and SIGTERM as a question that loops and ports ask.
 *
 * The first signal asks for an orderly end; another one, from a tenth of a second on, kills. With the log
 * this is the only process-wide state, since signals are.
 */
#ifndef MF_BASE_STOP_H
#define MF_BASE_STOP_H

#include "base/err.h"

enum { MF_STOP_TICK = 100 }; /* ms: nothing blocks longer without asking */

void mf_stop_catch(void);              /* also ignores SIGPIPE and SIGXFSZ: a port returns MF_CLOSED, a write EFBIG */
int mf_stop_signal(void);              /* 0, SIGINT or SIGTERM */
int mf_stop_check(struct mf_err *err); /* 0, or MF_STOPPED when TERM asked (INT drains: see stage.h) */
int mf_stop_any(struct mf_err *err);   /* the same when either asked, where there is nothing to drain */
int mf_stop_die(int sig);              /* end by sig, so that a shell sees 128+sig */

#endif
