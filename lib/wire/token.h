/* token.h - MessagePack decoder, one head at a time, without a tree and without allocation.
 *
 * A token is the head of one object: its type, and its value where that fits in the head. The body (str, bin, ext) or
 * the children (array, map) follow at p + head. Nothing here recurses or allocates, so a false length field does no
 * harm.
 */
#ifndef MF_WIRE_TOKEN_H
#define MF_WIRE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mf_token_type { MF_NIL, MF_TRUTH, MF_UINT, MF_SINT, MF_REAL, MF_TEXT, MF_BYTES, MF_EXT, MF_LIST, MF_MAP };

struct mf_token {
    enum mf_token_type type;
    uint32_t head; /* bytes of the head */
    uint64_t n;    /* bytes of the body; entries of a list, pairs of a map */
    union {
        bool truth;
        uint64_t u; /* MF_UINT: >= 0 */
        int64_t i;  /* MF_SINT: < 0 */
        double f;
    };
};

/* 1; 0: the head continues beyond len bytes; -1: not MessagePack. */
int mf_token_read(struct mf_token *t, const uint8_t *p, size_t len);

enum { MF_DEPTH_MAX = 31 }; /* of lists and maps; with the outermost, as deep as msgpack-c reads */

/* Finds the length of one object while its bytes arrive. */
struct mf_scan {
    size_t at;                       /* the next head; past `have` while a body is still coming */
    int depth;                       /* number of open lists and maps */
    uint64_t left[MF_DEPTH_MAX + 1]; /* objects to come at each depth */
};

void mf_scan_start(struct mf_scan *s);
/* 1 and the object is p[0 .. s->at); 0: more bytes are needed, `have` so far
 * (p may have moved, what was seen is not read again); -1: no MessagePack at
 * s->at; -2: nested deeper than MF_DEPTH_MAX; -3: longer than max. */
int mf_scan_more(struct mf_scan *s, const uint8_t *p, size_t have, size_t max);

/* The length of the object at p, which is whole within len bytes; 0 when it is not. */
size_t mf_token_span(const uint8_t *p, size_t len);

#endif
