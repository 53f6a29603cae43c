/* loopback.h - what goes over TCP is not encrypted, so it stays on this machine: streams and policy alike. */
#ifndef MF_WIRE_LOOPBACK_H
#define MF_WIRE_LOOPBACK_H

#include "base/err.h"

/* 0 for ipc://PATH and for tcp://HOST:PORT of the loopback; MF_EUSAGE for any other tcp address, to bind or to connect.
 */
int mf_loopback_check(const char *address, struct mf_err *err);

#endif
