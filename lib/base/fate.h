/* fate.h - how a program that was started here ended, in words. */
#ifndef MF_BASE_FATE_H
#define MF_BASE_FATE_H

enum { MF_FATE = 80 };

/* Of a status from waitpid, to go behind the program's name: "was killed by signal 9 (Killed)", also where a shell
 * reports that as 137, or "ended with exit status 1". Returns text. */
const char *mf_fate(char text[MF_FATE], int status);

#endif
