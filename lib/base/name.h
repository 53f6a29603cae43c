/* name.h - names from outside that become part of a path: a name is never a path.
 *
 * Names of sources, runs, environments and tasks come from streams, servers, checkpoints and the command line.
 */
#ifndef MF_BASE_NAME_H
#define MF_BASE_NAME_H

#include <stddef.h>

#include "base/err.h"

enum { MF_NAME_BYTES = 64 }; /* with the end */

/* NULL if the name is valid; otherwise its fault: "is empty", "contains '/'", .. */
const char *mf_name_fault(const char *name);
/* A valid name made of any text: '/', control characters and a leading dot become '_', and it is truncated. ALE/Pong-v5
 * -> ALE_Pong-v5, .. -> _. */
void mf_name_plain(char to[MF_NAME_BYTES], const char *text);

#endif
