/* home.h - '~' in front of a path: behind key= the shell leaves it as it is. */
#ifndef MF_BASE_HOME_H
#define MF_BASE_HOME_H

#include "base/err.h"

/* ~ and ~/X by $HOME, for free(); any other path as it is. NULL with MF_EUSAGE: ~USER, or there is no $HOME. */
char *mf_home_path(const char *path, struct mf_err *err);
/* The same of an address of a stream, whose path may follow '@' or '>' and ipc://. */
char *mf_home_address(const char *address, struct mf_err *err);

#endif
