/* zip.h - the entries of a zip file, found through its central directory.
 *
 * What PyTorch and NumPy write: stored or deflated, with or without zip64. The
 * local headers are looked at for their length alone, since PyTorch leaves
 * their sizes empty. Checksums are not compared: PyTorch may leave them out.
 */
#ifndef MF_IMPORT_ZIP_H
#define MF_IMPORT_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mf_zip_entry {
    const char *name; /* not NUL-ended: name_size bytes in the file */
    size_t name_size;
    const uint8_t *data; /* packed bytes in the file, at any alignment */
    size_t packed, size; /* there; and once inflated */
    bool deflated;
};

struct mf_zip {
    int n;
    struct mf_zip_entry *entry; /* by name */
    char *path;                 /* for sentences */
    const uint8_t *bytes;
    size_t size;
    int fd; /* of the mapped file; -1: the bytes are the caller's */
};

/* Map a file and find its entries. MF_EFORMAT, with what it is instead where that is known, when it is no whole zip
 * file: an entry lies outside of it, two overlap, a name comes twice. */
int mf_zip_open(struct mf_zip *z, const char *path, struct mf_err *err);
int mf_zip_parse(struct mf_zip *z, const void *bytes, size_t size, const char *path, struct mf_err *err);
void mf_zip_close(struct mf_zip *z); /* a zeroed one is fine */

const struct mf_zip_entry *mf_zip_find(const struct mf_zip *z, const char *name); /* NULL: none */

/* Bytes [from, from + n) of the entry at *bytes: within the file, or inflated into *own, which free() gives back (else
 * NULL). Memory is n bytes, whatever the entry inflates to. */
int mf_zip_read(const struct mf_zip *z, const struct mf_zip_entry *e, size_t from, size_t n, const uint8_t **bytes,
                void **own, struct mf_err *err);

#endif
