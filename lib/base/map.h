/* map.h - a file's bytes, mapped into memory for reading. */
#ifndef MF_BASE_MAP_H
#define MF_BASE_MAP_H

#include <stddef.h>

#include "base/err.h"

/* munmap(*map, *size) gives it back. `kind` is what the file should be, for the sentence: MF_EFORMAT where it is empty
 * or, as mf_file_open says, no regular file. */
int mf_map_file(const char *path, const char *kind, void **map, size_t *size, struct mf_err *err);

#endif
