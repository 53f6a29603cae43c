/* h5.h - what we need of HDF5, with our errors.
 *
 * HDF5 prints nothing and registers no exit handler; every failure is one
 * sentence. An id is closed by mf_h5_close, whatever it is an id of; a
 * negative id is fine there.
 */
#ifndef MF_DATA_H5_H
#define MF_DATA_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/frame.h"

void mf_h5_quiet(void); /* before anything else of HDF5, once per file is fine */
void mf_h5_close(hid_t id);
const char *mf_h5_reason(char text[400]); /* what HDF5 says about its last failure */
/* Sets MF_EIO with that reason appended, and returns it. */
int mf_h5_fail(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Open to read. Tells apart: not there, empty, a Git LFS pointer, not HDF5, truncated, held by a writer. */
int mf_h5_open(hid_t *file, const char *path, struct mf_err *err);

bool mf_h5_has(hid_t at, const char *path); /* "a/b": every link on the way is there */

/* The names in a group, by name. Freed with mf_h5_free_names. */
struct mf_h5_names {
    size_t n;
    char **name;
};
int mf_h5_list(hid_t at, const char *group, struct mf_h5_names *names, struct mf_err *err);
/* A 1-D dataset of strings, fixed or variable, bytes or UTF-8. */
int mf_h5_read_strings(hid_t at, const char *path, struct mf_h5_names *names, struct mf_err *err);
int mf_h5_add_name(struct mf_h5_names *names, const char *name); /* 0, for HDF5's iterators */
void mf_h5_free_names(struct mf_h5_names *names);
/* The names as "a, b, c", cut to fit. Returns text. */
char *mf_h5_join(const struct mf_h5_names *names, char *text, size_t size);

/* Attributes. read: 1, or 0 where there is none. *s is malloc'ed. */
int mf_h5_attr_int(hid_t at, const char *name, int64_t *v, struct mf_err *err);
int mf_h5_attr_text(hid_t at, const char *name, char **s, struct mf_err *err);
int mf_h5_set_int(hid_t at, const char *name, int64_t v, struct mf_err *err);
int mf_h5_set_text(hid_t at, const char *name, const char *s, struct mf_err *err);

/* Shape of a dataset: rank, dims. MF_EFORMAT where it is no dataset or its rank is above `max`. */
int mf_h5_shape(hid_t set, int max, int *rank, hsize_t *dim, struct mf_err *err);

/* Bytes that reading a dataset whole may take: its elements, held against the file's size (times 1032, deflate's
 * best, where it is compressed), so that a header's word alone never allocates. Adds to *sum. */
int mf_h5_bound(hid_t file, hid_t set, uint64_t *sum, struct mf_err *err);

int mf_h5_numbers(hid_t set, enum mf_dtype *dtype, struct mf_err *err); /* as they lie there; MF_EFORMAT: none */
int mf_h5_readable(hid_t set, struct mf_err *err); /* MF_EFORMAT names a compression that is not known here */

/* Damaged headers can make HDF5 itself crash (1.10.8 does). From here to mf_h5_guard(NULL) such a crash ends the
 * program with a sentence about this file and exit 3. Not nested. */
void mf_h5_guard(const char *path);

/* Write one dataset whole and contiguous: where the size is known nothing beats that. Groups on the way are made. */
int mf_h5_put(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              struct mf_err *err);
/* The same under a name from elsewhere, left open in *set: 1 where no dataset can be called that. */
int mf_h5_try(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              hid_t *set, struct mf_err *err);

#endif
