/* log.h - one line on stderr per event, one write(2) per line. */
#ifndef MF_BASE_LOG_H
#define MF_BASE_LOG_H

#include <stdbool.h>

enum mf_level { MF_LOG_ERROR, MF_LOG_WARN, MF_LOG_INFO, MF_LOG_DEBUG };

/* prog is "mf-gae"; with MF_TAG=3 in the environment lines begin "mf-gae[3]". */
void mf_log_open(const char *prog, enum mf_level level);

/* Lines are also appended to this descriptor (a run's log file), and so are those of before, 8 KiB of them; -1 ends
 * that. */
void mf_log_tee(int fd);

/* Writes "mf-gae: warn: text key=value ...\n". */
void mf_log(enum mf_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for what others may cause as often as they like: the first 5 lines, then one in 10 s, which counts those
 * that were left out. */
struct mf_rarely { /* zeroed; one for each kind of line, and for one thread */
    double last;
    int logged, left_out;
};
void mf_log_rarely(struct mf_rarely *r, enum mf_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void mf_log_warn(const char *text); /* the same as a function to hand over, for the rooms that do not log */

/* A line that replaces the last one, for long work. Drawn only when `live` was
 * granted: stderr is a terminal and stdout is not a pipe. "" clears it. */
void mf_log_live(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool mf_log_is_live(void);

/* Is a line about long work due? Where stderr is no terminal, and *last, a time of mf_now(), was 10 s ago or more:
 * then it becomes now. */
bool mf_log_is_due(double *last);

#endif
