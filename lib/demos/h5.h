/* h5.h - what we need of HDF5, with our errors.
 *
 * HDF5 prints nothing and registers no exit handler; every failure is one
 * sentence. An id is closed by mf_h5_close, whatever it is an id of; a
 * negative id is fine there.
 */
#ifndef MF_DEMOS_H5_H
#define MF_DEMOS_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "stream/frame.h"

void mf_h5_quiet(void); /* before anything else of HDF5, once per file is fine */
/* MF_EIO, once, where the system failed any call of HDF5 since mf_h5_quiet or this: HDF5 itself passes over some. */
int mf_h5_failed(struct mf_err *err);
void mf_h5_close(hid_t id);
const char *mf_h5_reason(char text[400]); /* what HDF5 says about its last failure */
/* Sets MF_EIO with that reason appended, and returns it. */
int mf_h5_fail(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same of what was read: MF_EFORMAT where the file and not the system is at fault. */
int mf_h5_unread(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Open to read. Tells apart: not there, empty, a Git LFS pointer, not HDF5, truncated, held by a writer. A file system
 * without locks is fine. */
int mf_h5_open(hid_t *file, const char *path, struct mf_err *err);
/* Has the access list of a file that fd has open use no locks where the file system has none; MF_EIO: it is held. */
int mf_h5_locks(hid_t access, int fd, bool writes, const char *path, struct mf_err *err);

/* A group or dataset, through links of all kinds. The sentence names a linked file that is not there. */
int mf_h5_object(hid_t at, const char *path, hid_t *object, struct mf_err *err);
int mf_h5_has(hid_t at, const char *path,
              struct mf_err *err); /* "a/b": 1 where every link on the way is there, else 0 */
void mf_h5_follow(hid_t access);   /* for who opens by an access list of his own: external links, as mf_h5_object */

/* The names in a group, by name. Freed with mf_h5_free_names. */
struct mf_h5_names {
    size_t n;
    char **name;
};
int mf_h5_list(hid_t at, const char *group, struct mf_h5_names *names, struct mf_err *err);
/* All datasets in a group and its groups, through links, by path: "x", "robot/pos". */
int mf_h5_datasets(hid_t group, struct mf_h5_names *names, struct mf_err *err);
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

/* What a recording says of its own bytes: zlib.crc32, the attribute mf_crc32 of a dataset. check: MF_EFORMAT where it
 * is another than that of these bytes, all of the dataset; 0 where there is none. */
uint32_t mf_h5_crc(const void *bytes, size_t n);
int mf_h5_check_crc(hid_t set, const void *bytes, size_t n, struct mf_err *err);

/* Shape of a dataset: rank, dims. MF_EFORMAT where it is no dataset or its rank is above `max`. */
int mf_h5_shape(hid_t set, int max, int *rank, hsize_t *dim, struct mf_err *err);

/* Files and datasets that are kept open while a virtual dataset is read: what is open cannot be missed. */
struct mf_h5_held {
    size_t n;
    hid_t *id;
};
void mf_h5_let_go(struct mf_h5_held *held);

/* May a dataset be read? All its numbers lie in files, its own or others, that are there and large enough (times 1032,
 * deflate's best, where it is compressed), so that a header's word alone never allocates and nothing missing is read as
 * zeros; and its compression is known here. MF_EFORMAT says what is not so. held: the sources of a virtual dataset stay
 * open in it; NULL: they do not. */
int mf_h5_whole(hid_t set, struct mf_h5_held *held, struct mf_err *err);
int mf_h5_hold(hid_t set, struct mf_h5_held *held, struct mf_err *err);      /* the same, of a virtual dataset alone */
int mf_h5_count(hid_t set, uint64_t *n, uint64_t *size, struct mf_err *err); /* its elements, bytes of one */

int mf_h5_numbers(hid_t set, enum mf_dtype *dtype, struct mf_err *err); /* as they lie there; MF_EFORMAT: none */

/* Damaged headers can make HDF5 itself crash or loop (1.10.8 does both). From here to mf_h5_unguard such an end is one
 * with a sentence about this file and exit 3; so it is when 5 s of processor time and more pass without mf_h5_alive. A
 * signal that asks to stop ends the program where no call returns for 3 s. Not nested. */
void mf_h5_guard(const char *path);
void mf_h5_alive(void);
/* Returns rc; where that is no error and a call of HDF5 failed all the same, MF_EIO. */
int mf_h5_unguard(int rc, const char *path, struct mf_err *err);

/* Write one dataset whole and contiguous: where the size is known nothing beats that. Groups on the way are made. */
int mf_h5_put(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              struct mf_err *err);
/* The same under a name from elsewhere, left open in *set: 1 where no dataset can be called that. */
int mf_h5_try(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              hid_t *set, struct mf_err *err);

#endif
