/* npz.h - arrays that numpy.savez wrote. */
#ifndef MF_DATA_NPZ_H
#define MF_DATA_NPZ_H

#include <stddef.h>

#include "data/zip.h"

/* The numbers of the array `name`, float32 or float64, in C order: malloc'ed. MF_EFORMAT where it is not there or
 * something else. */
int mf_npz_read(const struct mf_zip *npz, const char *name, float **v, size_t *n, struct mf_err *err);

#endif
