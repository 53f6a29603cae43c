/* curve.h - key files, and the doorman who holds those of who comes against a folder of them.
 *
 * A key file is one line, the key's 40 characters of Z85: NAME.secret (mode 600) and NAME.public.
 */
#ifndef MF_WIRE_CURVE_H
#define MF_WIRE_CURVE_H

#include "wire/socket.h"

enum { MF_KEY_SIZE = 41 }; /* with its NUL */

/* A key of a file; MF_EUSAGE where it is none, or where it is secret and others may read it. */
int mf_curve_read(const char *path, bool secret, char key[MF_KEY_SIZE], struct mf_err *err);

/* CURVE on this socket, before it is attached. */
int mf_curve_lock(struct mf_socket *s, bool bind, const struct mf_wire_opts *o, struct mf_err *err);
void mf_curve_unlock(struct mf_socket *s); /* after the context has ended */

#endif
