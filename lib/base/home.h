/* home.h - expansion of '~' at the start of a path: the shell does not expand it behind key=. */
#ifndef MF_BASE_HOME_H
#define MF_BASE_HOME_H

#include "base/err.h"

/* Returns ~ and ~/X expanded by $HOME, any other path unchanged; free() it. NULL with MF_EUSAGE for ~USER, or without
 * $HOME. */
char *mf_home_path(const char *path, struct mf_err *err);
/* The same for the address of a stream, whose path may follow '@' or '>' and ipc://. */
char *mf_home_address(const char *address, struct mf_err *err);

#endif
