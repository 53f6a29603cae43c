/* verify.h - is a file a whole checkpoint of a policy, all of whose numbers are finite? */
#ifndef MF_FLOW_VERIFY_H
#define MF_FLOW_VERIFY_H

#include "base/err.h"

int mf_checkpoint_verify(const char *path, struct mf_err *err); /* MF_EFORMAT says what is wrong, and where */

#endif
