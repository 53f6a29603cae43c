/* publish.h - a file appears under its name whole, or not at all. */
#ifndef MF_BASE_PUBLISH_H
#define MF_BASE_PUBLISH_H

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

/* "PATH.part", for free(). NULL where either is something that a file must not take the place of: a folder, a pipe,
 * whose writer would wait, or a device, since a rename would replace /dev/null. */
char *mf_publish_part(const char *path, struct mf_err *err);
/* What was written to `part`, and closed, goes onto the disk and then takes its name `path`, in the same folder. On
 * failure `part` is removed and what was at `path` is what it was. */
int mf_publish(const char *part, const char *path, struct mf_err *err);
/* All of it for n bytes that are at hand: written to PATH.part, and published. */
int mf_publish_bytes(const char *path, const void *bytes, size_t n, struct mf_err *err);
/* The same of what was printed to open_memstream(text, n), which is closed here, and *text freed. NULL: MF_EIO. */
int mf_publish_printed(const char *path, FILE *printed, char **text, const size_t *n, struct mf_err *err);

#endif
