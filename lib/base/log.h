/* log.h - one line on stderr per event, one write(2) per line. */
#ifndef MF_BASE_LOG_H
#define MF_BASE_LOG_H

#include <stdbool.h>

enum mf_level { MF_LOG_ERROR, MF_LOG_WARN, MF_LOG_INFO, MF_LOG_DEBUG };

/* prog is "mf-gae"; with MF_TAG=3 in the environment lines begin "mf-gae[3]". */
void mf_log_open(const char *prog, enum mf_level level);

/* Appends all lines to this descriptor as well (a run's log file), and first the last 8 KiB of earlier lines; -1 stops
 * it. */
void mf_log_tee(int fd);

/* Writes "mf-gae: warn: text key=value ...\n". */
void mf_log(enum mf_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same with a rate limit, for events that a peer can cause at will: the first 5 lines, then one line in 10 s with
 * the number of suppressed ones. */
struct mf_rarely { /* zeroed; one per kind of line and thread */
    double last;
    int logged, left_out;
};
void mf_log_rarely(struct mf_rarely *r, enum mf_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void mf_log_warn(const char *text); /* a callback for the rooms that do not log */

/* A progress line that replaces the previous one. Drawn only if stderr is a terminal and stdout is not a pipe. ""
 * clears it. */
void mf_log_live(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool mf_log_is_live(void);

/* Is a progress line due? True if stderr is not a terminal and *last, a time of mf_now(), is 10 s ago or more; then
 * sets *last to now. */
bool mf_log_is_due(double *last);

#endif
