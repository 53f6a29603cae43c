/* h5.h - the parts of HDF5 that are used here, with our errors.
 *
 * HDF5 prints nothing and registers no exit handler; every failure is one sentence. mf_h5_close closes an id of any
 * kind, and ignores a negative one.
 */
#ifndef MF_DEMOS_H5_H
#define MF_DEMOS_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "stream/frame.h"

void mf_h5_quiet(void); /* before any other call of HDF5; more than once is fine */
/* MF_EIO, once, where a system call has failed within HDF5 since mf_h5_quiet or the last call of this: HDF5 ignores
 * some of these failures. */
int mf_h5_failed(struct mf_err *err);
void mf_h5_close(hid_t id);
const char *mf_h5_reason(char text[400]); /* HDF5's reason for its last failure */
/* Sets MF_EIO with that reason appended, and returns it. */
int mf_h5_fail(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a read: MF_EFORMAT where the file and not the system is at fault. */
int mf_h5_unread(struct mf_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Opens for reading. Distinct errors: not there, empty, a Git LFS pointer, not HDF5, truncated, locked by a writer. A
 * file system without locks is fine. */
int mf_h5_open(hid_t *file, const char *path, struct mf_err *err);
/* Sets the access list of a file, open as fd, to use no locks where the file system has none; MF_EIO: it is locked. */
int mf_h5_locks(hid_t access, int fd, bool writes, const char *path, struct mf_err *err);

/* A group or dataset, through links of all kinds. The sentence names a linked file that is not there. */
int mf_h5_object(hid_t at, const char *path, hid_t *object, struct mf_err *err);
int mf_h5_has(hid_t at, const char *path,
              struct mf_err *err); /* "a/b": 1 where every link on the way is there, else 0 */
void mf_h5_follow(hid_t access);   /* for an own access list: follows external links as mf_h5_object does */

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

/* The checksum of a recording, zlib.crc32 in the attribute mf_crc32 of a dataset. check: MF_EFORMAT where it differs
 * from that of these bytes, the whole dataset; 0 where the attribute is missing. */
uint32_t mf_h5_crc(const void *bytes, size_t n);
int mf_h5_check_crc(hid_t set, const void *bytes, size_t n, struct mf_err *err);

/* Shape of a dataset: rank, dims. MF_EFORMAT where it is no dataset or its rank is above `max`. */
int mf_h5_shape(hid_t set, int max, int *rank, hsize_t *dim, struct mf_err *err);

/* Files and datasets that stay open while a virtual dataset is read, so that none can vanish. */
struct mf_h5_held {
    size_t n;
    hid_t *id;
};
void mf_h5_let_go(struct mf_h5_held *held);

/* Can the dataset be read? All its numbers must lie in existing files that are large enough (times 1032, deflate's
 * best, where it is compressed): a header alone never causes an allocation, and missing data is never read as zeros.
 * Its compression must be known here. MF_EFORMAT says which condition fails. held: keeps the sources of a virtual
 * dataset open; NULL: they are closed. */
int mf_h5_whole(hid_t set, struct mf_h5_held *held, struct mf_err *err);
int mf_h5_hold(hid_t set, struct mf_h5_held *held, struct mf_err *err);      /* the same, of a virtual dataset alone */
int mf_h5_count(hid_t set, uint64_t *n, uint64_t *size, struct mf_err *err); /* its elements, bytes of one */

int mf_h5_numbers(hid_t set, enum mf_dtype *dtype, struct mf_err *err); /* as stored; MF_EFORMAT: not numbers */

/* Damaged headers can make HDF5 itself crash or loop (1.10.8 does both). Between this call and mf_h5_unguard a crash
 * ends the program with a sentence about this file and exit 3; so do 5 s of processor time without mf_h5_alive. A stop
 * signal ends the program where no call returns for 3 s. Not nested. */
void mf_h5_guard(const char *path);
void mf_h5_alive(void);
/* Returns rc, or MF_EIO where rc is no error and a system call has failed within HDF5. */
int mf_h5_unguard(int rc, const char *path, struct mf_err *err);

/* Writes one contiguous dataset, the fastest form where the size is known. Makes the groups of its path. */
int mf_h5_put(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              struct mf_err *err);
/* The same under any name, left open as *set: 1 where no dataset can have that name. */
int mf_h5_try(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              hid_t *set, struct mf_err *err);

#endif
