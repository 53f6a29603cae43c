/* npz.h - arrays that numpy.savez wrote. */
#ifndef MF_IMPORT_NPZ_H
#define MF_IMPORT_NPZ_H

#include <stddef.h>

#include "import/zip.h"

/* The n numbers of the array `name`, float32 or float64, in C order. MF_EFORMAT where it is missing, has another type,
 * or another length than `whose` ("the policy's action"). */
int mf_npz_read(const struct mf_zip *npz, const char *name, double *v, size_t n, const char *whose, struct mf_err *err);

#endif
