/* stop.h - SIGINT and SIGTERM as flags that loops and ports poll.
 *
 * The first signal requests an orderly end; a second one, at least 0.1 s later, kills the process. Beside the log
 * and the count of open sockets (wire/socket.c) this is the only global state, since signals are global.
 */
#ifndef MF_BASE_STOP_H
#define MF_BASE_STOP_H

#include <stdbool.h>

#include "base/err.h"

enum { MF_STOP_TICK = 100 }; /* ms: the longest time between two polls */

void mf_stop_catch(void);              /* also ignores SIGPIPE and SIGXFSZ: a port returns MF_CLOSED, a write EFBIG */
int mf_stop_signal(void);              /* 0, SIGINT or SIGTERM */
int mf_stop_check(struct mf_err *err); /* 0, or MF_STOPPED after SIGTERM (SIGINT drains: see stage.h) */
void mf_stop_defer(bool deferred);     /* while so, mf_stop_check returns 0: what has begun is completed */
int mf_stop_any(struct mf_err *err);   /* the same after either signal, for programs with nothing to drain */
/* Processes that compute together stop at the same place: while held, a signal that was caught shows in the functions
 * above only once it is shown. */
void mf_stop_hold(bool held);
int mf_stop_caught(void);   /* shown or not */
void mf_stop_show(int sig); /* 0: nothing new */
int mf_stop_die(int sig);   /* end by sig, so that a shell sees 128+sig */

#endif
