/* name.h - names from elsewhere that become part of a path: a name is never a path.
 *
 * Names of sources, runs, environments and tasks come from streams, servers, checkpoints and words.
 */
#ifndef MF_BASE_NAME_H
#define MF_BASE_NAME_H

#include <stddef.h>

#include "base/err.h"

enum { MF_NAME_BYTES = 64 }; /* with the end */

/* NULL where it is a name; else why not: "is empty", "contains '/'", .. */
const char *mf_name_fault(const char *name);
/* The name of a file or folder for any text: '/', control characters and a dot in front become '_', and it is cut.
 * ALE/Pong-v5 -> ALE_Pong-v5, .. -> _. */
void mf_name_plain(char to[MF_NAME_BYTES], const char *text);

#endif
