/* npz.h - arrays that numpy.savez wrote. */
#ifndef MF_IMPORT_NPZ_H
#define MF_IMPORT_NPZ_H

#include <stddef.h>

#include "import/zip.h"

/* The n numbers of the array `name`, float32 or float64, in C order. MF_EFORMAT where it is not there, or something
 * else, or where it does not have n, as `whose` ("the policy's action") has. */
int mf_npz_read(const struct mf_zip *npz, const char *name, double *v, size_t n, const char *whose, struct mf_err *err);

#endif
