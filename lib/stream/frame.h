/* frame.h - one object of the stream: its kind, its fields, its named arrays.
 *
 *   head     v, run, src, seed, max_lag, steps, policy_address, checkpoint, defaults, again, spec, chain
 *   rollout  iter, src, slice, envs, policy, arrays  policy   version, iter, global_step, noise, part, tensors
 *   round    iter, src, slices, episodes, counted, state      metrics  iter, step, time, values
 *   video    iter, step, path                        end      src, frames, samples, stopped, lost
 *   failed   who: instead of an end, from a program that failed and has reported why; readers fail silently
 *
 * A frame keeps every field and every array in the order in which it was received,
 * unknown ones as bytes, so that a stage sends on unchanged what it does not touch. Arrays are msgpack-numpy's ndarrays
 * ("arrays" of a rollout, "tensors" of a policy frame): five-key maps with bin keys, C order. Accepted as well: any
 * order of the keys, str keys, `type` as bin, no `kind`, big-endian data, openpi's names. Python objects (kind 'O') are
 * refused; an entry that is not an array of these dtypes is passed on. A key occurs once in a map.
 *
 * Not thread-safe: arrays are aligned, and strings copied, when they are first used.
 */
#ifndef MF_STREAM_FRAME_H
#define MF_STREAM_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/port.h"

enum mf_kind { MF_HEAD, MF_ROLLOUT, MF_ROUND, MF_METRICS, MF_VIDEO, MF_POLICY, MF_END, MF_FAILED, MF_OTHER };
const char *mf_kind_name(enum mf_kind kind); /* "head" */

enum mf_dtype {
    MF_F32,
    MF_F64,
    MF_U8,
    MF_I8,
    MF_I32,
    MF_I64,
    MF_U32,
    MF_U64,
    MF_I16,
    MF_U16,
    MF_F16,
    MF_B1,
    MF_BFLOAT /* bfloat16: in files alone */
};
size_t mf_dtype_size(enum mf_dtype dtype);
const char *mf_dtype_name(enum mf_dtype dtype); /* numpy's: "<f4" */

enum { MF_RANK_MAX = 8, MF_NAME_MAX = 128 };

struct mf_array {
    char name[MF_NAME_MAX];
    enum mf_dtype dtype;
    int rank;
    size_t dim[MF_RANK_MAX];
    size_t count, bytes; /* elements; count * size */
    void *data;          /* borrowed from the frame's bytes, or owned by the frame when added; 8-byte aligned */
};
/* n numbers of an array of MF_F32 or MF_BFLOAT, from the first'th on. */
void mf_array_floats(const struct mf_array *a, size_t first, size_t n, float *to);

struct mf_frame; /* opaque */

struct mf_frame *mf_frame_new(enum mf_kind kind);
/* A head of this format, to be completed. run: the run's folder, "" for none; src: this source's name. */
struct mf_frame *mf_frame_head(const char *run, const char *src, int64_t seed);
void mf_frame_free(struct mf_frame *f);             /* NULL is fine */
struct mf_frame *mf_frame_keep(struct mf_frame *f); /* adds an owner; each owner frees it */
enum mf_kind mf_frame_kind(const struct mf_frame *f);
size_t mf_frame_bytes(const struct mf_frame *f); /* of a received frame; 0 of a new one */

/* 1 and *f (the caller frees it), 0 at the end of the bytes, MF_PORT_LEFT, _LATE or _RENEWED and no frame, negative
 * on error. */
int mf_frame_recv(struct mf_port *in, struct mf_port *watch, struct mf_frame **f, struct mf_err *err);
int mf_frame_send(struct mf_port *out, const struct mf_frame *f, struct mf_err *err);
/* The same to and from memory. encode: *data is malloc'ed. */
int mf_frame_encode(const struct mf_frame *f, void **data, size_t *len, struct mf_err *err);
int mf_frame_decode(struct mf_frame **f, const void *data, size_t len, struct mf_err *err);

/* Fields. A path "a.b" goes into nested maps, "a.0" into arrays, "a\\.b" is the key "a.b" (mf_escape). get returns
 * 0, or MF_EFORMAT with a sentence that names the field; has never fails. A
 * NumPy scalar is a number. Strings live as long as the frame, bytes until the
 * next set. */
bool mf_frame_has(const struct mf_frame *f, const char *path);
bool mf_frame_same(const struct mf_frame *a, const struct mf_frame *b, const char *path); /* the same bytes, or none */
int mf_frame_get_int(const struct mf_frame *f, const char *path, int64_t *v, struct mf_err *err);
int mf_frame_get_num(const struct mf_frame *f, const char *path, double *v, struct mf_err *err);
int mf_frame_get_bool(const struct mf_frame *f, const char *path, bool *v, struct mf_err *err);
int mf_frame_get_str(const struct mf_frame *f, const char *path, const char **s, struct mf_err *err); /* NUL-ended */
int mf_frame_get_bin(const struct mf_frame *f, const char *path, const void **p, size_t *n, struct mf_err *err);
/* The number of entry i of the map at path, whatever its key is. */
int mf_frame_num_at(const struct mf_frame *f, const char *path, int i, double *v, struct mf_err *err);
int mf_frame_count(const struct mf_frame *f, const char *path);              /* entries of a map or array; -1: none */
const char *mf_frame_key(const struct mf_frame *f, const char *path, int i); /* key i of the map at path ("" = top) */

/* Set appends, or replaces in place. A path "a.b" makes the map "a" where it is missing. Not for arrays. */
void mf_frame_set_int(struct mf_frame *f, const char *path, int64_t v);
void mf_frame_set_num(struct mf_frame *f, const char *path, double v);
void mf_frame_set_bool(struct mf_frame *f, const char *path, bool v);
void mf_frame_set_str(struct mf_frame *f, const char *path, const char *s);
void mf_frame_set_bin(struct mf_frame *f, const char *path, const void *p, size_t n);
void mf_frame_set_ints(struct mf_frame *f, const char *path, const int64_t *v, size_t n); /* an array */
/* Appends {stage, version, argv} to "chain" (provenance, as SAM's @PG). */
void mf_frame_add_chain(struct mf_frame *f, const char *stage, const char *version, int argc, char **argv);

/* Arrays. Received ones are read-only: to send other numbers, add an array of that name. */
int mf_frame_arrays(const struct mf_frame *f);
struct mf_array *mf_frame_array(const struct mf_frame *f, int i);
struct mf_array *mf_frame_find(const struct mf_frame *f, const char *name); /* NULL: not there */
/* Add a zeroed array, or replace the one of that name; the frame owns it. */
int mf_frame_add(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim, void **data,
                 struct mf_err *err);

/* A rollout whose observations are those of some decisions alone: share k of n, see rollout.h. That is not sent with
 * the frame. Of any other: 0 of 1. */
void mf_frame_set_share(struct mf_frame *f, int k, int n);
int mf_frame_share(const struct mf_frame *f, int *n);

#endif
