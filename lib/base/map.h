/* map.h - a file's bytes, mapped into memory for reading. */
#ifndef MF_BASE_MAP_H
#define MF_BASE_MAP_H

#include <stddef.h>

#include "base/err.h"

/* Release it with munmap(*map, *size). `kind` names the expected content in the error: MF_EFORMAT if the file is empty
 * or not a regular file (mf_file_open). */
int mf_map_file(const char *path, const char *kind, void **map, size_t *size, struct mf_err *err);

#endif
