/* safetensors.h - named arrays and string metadata in one file, as the safetensors project defines it.
 *
 * A file is a 64-bit little-endian length, that many bytes of JSON
 *   {"__metadata__": {key: string}, name: {"dtype", "shape", "data_offsets": [begin, end]}}
 * and the arrays' bytes, without hole, overlap or rest.
 */
#ifndef MF_RUN_SAFETENSORS_H
#define MF_RUN_SAFETENSORS_H

#include "base/err.h"
#include "stream/frame.h"

struct mf_meta {
    const char *key, *value;
};

struct mf_safetensors {
    int n, n_meta;
    struct mf_array *tensors; /* by name; data points into the file, unaligned and read-only */
    struct mf_meta *meta;     /* by key */
    const char *header;       /* the JSON as it stands in the file, header_size bytes */
    size_t header_size;
    struct json_t *json; /* private: the header, into which meta points */
    void *map;           /* private: the mapped file */
    size_t size;
};

/* Maps a file and checks everything but the numbers. Every violation of the format is MF_EFORMAT with a sentence that
 * names path and tensor; what is no safetensors file at all (a PyTorch zip, HDF5, a Git LFS pointer) is called by name.
 */
int mf_safetensors_open(struct mf_safetensors *f, const char *path, struct mf_err *err);
/* The same from memory, which must outlive f. */
int mf_safetensors_parse(struct mf_safetensors *f, const void *bytes, size_t size, const char *name,
                         struct mf_err *err);
void mf_safetensors_close(struct mf_safetensors *f); /* a zeroed one is fine */

const struct mf_array *mf_safetensors_find(const struct mf_safetensors *f, const char *name); /* NULL: none */
const char *mf_safetensors_meta(const struct mf_safetensors *f, const char *key);             /* NULL: none */

/* Reads the numbers of arrays that are not in memory (data NULL): n elements from the first'th on. */
struct mf_origin {
    int (*read)(void *self, const struct mf_array *a, size_t first, size_t n, void *to, struct mf_err *err);
    void *self;
};

/* Write PATH.part, fsync, rename to PATH, fsync the folder. Sorts tensors by name and meta by key, so the same
 * content is the same bytes. On failure PATH is what it was and PATH.part is gone. */
int mf_safetensors_write(const char *path, struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta,
                         struct mf_err *err);
int mf_safetensors_copy(const char *path, struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta,
                        const struct mf_origin *from, struct mf_err *err);
/* Reads and writes nothing: calls `from` for the same arrays and numbers, in the same order. */
int mf_safetensors_pass(struct mf_array *tensors, int n, const struct mf_origin *from, struct mf_err *err);

#endif
