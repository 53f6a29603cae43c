/* publish.h - atomic file replacement: a file appears under its name complete, or not at all. */
#ifndef MF_BASE_PUBLISH_H
#define MF_BASE_PUBLISH_H

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

/* Returns "PATH.part"; free() it. NULL if one of the two exists and is a folder, a pipe, a socket or a device: the
 * rename would replace it, even /dev/null. */
char *mf_publish_part(const char *path, struct mf_err *err);
/* Syncs the closed file `part` to disk and renames it to `path`, in the same folder. On failure `part` is removed and
 * `path` stays unchanged. */
int mf_publish(const char *part, const char *path, struct mf_err *err);
/* Writes n bytes to PATH.part and publishes it. */
int mf_publish_bytes(const char *path, const void *bytes, size_t n, struct mf_err *err);
/* The same for the text printed to open_memstream(text, n); closes the stream and frees *text. NULL: MF_EIO. */
int mf_publish_printed(const char *path, FILE *printed, char **text, const size_t *n, struct mf_err *err);

#endif
