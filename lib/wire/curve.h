/* curve.h - CURVE key files, and the check of clients' keys against a folder of allowed ones.
 *
 * A key file is one line, the key's 40 characters of Z85: NAME.secret (mode 600) and NAME.public.
 */
#ifndef MF_WIRE_CURVE_H
#define MF_WIRE_CURVE_H

#include "wire/socket.h"

enum { MF_KEY_SIZE = 41 }; /* with its NUL */

/* Reads a key file. MF_EUSAGE: not a key, or a secret key that other users can read. */
int mf_curve_read(const char *path, bool secret, char key[MF_KEY_SIZE], struct mf_err *err);

/* Enables CURVE on this socket, before it is attached. */
int mf_curve_lock(struct mf_socket *s, bool bind, const struct mf_wire_opts *o, struct mf_err *err);
void mf_curve_unlock(struct mf_socket *s); /* after the context has ended */

#endif
