/* frame_priv.h - what the files of a frame share. */
#ifndef MF_STREAM_FRAME_PRIV_H
#define MF_STREAM_FRAME_PRIV_H

#include <msgpack.h>

#include "base/mem.h"
#include "stream/frame.h"
#include "wire/token.h"

enum { MF_PAIRS_MAX = 1 << 16 }; /* in one map */

/* The bytes of one object, head included. `own` is freed with it; NULL: they lie in the frame's raw. */
struct mf_span {
    const uint8_t *p;
    size_t n;
    uint8_t *own;
};

struct mf_field {
    struct mf_span key, value;
};

/* An entry of "arrays". A received ndarray has `array`, whose data is copied
 * into place when it is first used. An added one has only its head in
 * field.value; its data is sent behind that. */
struct mf_entry {
    struct mf_field field;
    struct mf_array *array; /* NULL: another object, which is passed on */
    const uint8_t *came;    /* its data in the raw bytes, until it is copied */
    bool swap;              /* received as big-endian */
    bool added;
};

const char *mf_kind_article(enum mf_kind kind); /* "an end", for a sentence */

struct mf_text {
    struct mf_text *next;
    char text[];
};

struct mf_frame {
    enum mf_kind kind;
    int kept;     /* owners beside the first */
    uint8_t *raw; /* as received, len bytes; NULL in a new frame */
    size_t len;
    bool changed; /* raw is not sent any more */
    int n_fields, n_entries, n_arrays;
    struct mf_field *field;
    struct mf_entry *entry;
    int holder;            /* the field whose pairs are the entries; -1: none */
    uint8_t *store;        /* for the data of arrays that are not aligned in raw */
    struct mf_text *texts; /* the strings handed out */
    int share, shares;     /* shares 0: all observations are here */
};

/* A buffer for a key or a head: allocating msgpack-c's default of 8 KiB costs more than packing them. */
static inline msgpack_sbuffer mf_few_bytes(void)
{
    enum { FEW = 128 };
    return (msgpack_sbuffer){.data = mf_xcalloc(FEW, 1), .alloc = FEW};
}

/* Is this key a string with just these bytes? *rest: with the beginning of a path, up to a '.' or its end. */
bool mf_span_is(const uint8_t *p, size_t n, const char *text);
bool mf_span_begins(const uint8_t *p, size_t n, const char *path, const char **rest);

/* No control characters: fit for a C string, and for a sentence on a terminal. */
bool mf_key_is_plain(const uint8_t *p, size_t n);

/* Sets e->array from an ndarray map: 1; 0: another object, which is passed on; MF_EFORMAT. */
int mf_array_parse(struct mf_entry *e, struct mf_err *err);
void mf_array_fill(struct mf_entry *e);
/* The number in a msgpack-numpy scalar {nd: false, type, data}. */
bool mf_array_scalar(const uint8_t *p, size_t n, struct mf_token *t);

struct mf_field *mf_frame_append(struct mf_frame *f, const char *key, size_t len);
struct mf_field *mf_frame_hold(struct mf_frame *f); /* the field of the arrays, made where it is missing */

#endif
