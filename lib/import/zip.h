/* zip.h - the entries of a zip file that PyTorch or NumPy wrote, read through libzip: stored or deflated, also zip64.
 *
 * The checksum of a deflated entry is compared where it is read to its end. Those of stored entries are not: a gigabyte
 * of them takes a second, and PyTorch can be asked to write none.
 */
#ifndef MF_IMPORT_ZIP_H
#define MF_IMPORT_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mf_zip_entry {
    const char *name;
    uint64_t index;
    size_t packed, size; /* bytes in the file; and once inflated */
    bool deflated;
};

struct mf_zip {
    int n;
    struct mf_zip_entry *entry; /* in the order of the file */
    char *path;                 /* for sentences */
    struct zip *file;           /* libzip's */
};

/* Open a file and list its entries. MF_EFORMAT, with what it is instead where that is known, where it is not a whole
 * zip file: its directory and its entries contradict each other, an entry lies outside, two overlap or have one name.
 */
int mf_zip_open(struct mf_zip *z, const char *path, struct mf_err *err);
/* The same from memory, which must outlive z. */
int mf_zip_parse(struct mf_zip *z, const void *bytes, size_t size, const char *path, struct mf_err *err);
void mf_zip_close(struct mf_zip *z); /* a zeroed one is fine */

const struct mf_zip_entry *mf_zip_find(const struct mf_zip *z, const char *name); /* NULL: none */

/* Bytes [from, from + n) of the entry. A stored one is read there; a deflated one is inflated from its beginning. */
int mf_zip_read(const struct mf_zip *z, const struct mf_zip_entry *e, size_t from, size_t n, void *to,
                struct mf_err *err);

#endif
