/* verify.h - checks that a file is a complete checkpoint of a policy with finite numbers. */
#ifndef MF_FLOW_VERIFY_H
#define MF_FLOW_VERIFY_H

#include "base/err.h"

int mf_checkpoint_verify(const char *path, struct mf_err *err); /* MF_EFORMAT names the fault and its place */

#endif
