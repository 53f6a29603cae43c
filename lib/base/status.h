/* status.h - the exit status of a child process, in words. */
#ifndef MF_BASE_STATUS_H
#define MF_BASE_STATUS_H

enum { MF_STATUS_TEXT = 80 };

/* Describes a status from waitpid, to follow the program's name: "was killed by signal 9 (Killed)", also where a shell
 * reports that as 137, or "ended with exit status 1". Returns text. */
const char *mf_status_text(char text[MF_STATUS_TEXT], int status);

#endif
