/* tokenizer.h - text to the ids of a SentencePiece BPE model, as PaliGemma's: Kudo and Richardson, arXiv 1808.06226;
 * Sennrich et al., arXiv 1508.07909.
 *
 * Spaces become U+2581. User-defined pieces are cut out first, the longest that begins at a place. Of the characters
 * between them, the adjacent pair that makes the piece of the best score is merged again and again, the leftmost of
 * equals; a character that is in no piece then becomes the ids of its bytes. Neither text nor ids are changed
 * otherwise: a model that wants its text normalised or prefixed, or has no bytes, is refused.
 */
#ifndef MF_LANG_TOKENIZER_H
#define MF_LANG_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum { MF_PIECES_MAX = 1 << 20 }; /* ids are exact as float32, too */

enum mf_piece_type { MF_PIECE_NORMAL = 1, MF_PIECE_UNKNOWN, MF_PIECE_CONTROL, MF_PIECE_USER, MF_PIECE_BYTE = 6 };

struct mf_lang_piece {
    const char *text; /* n bytes, in the file */
    uint32_t n;
    float score;
    uint32_t type; /* enum mf_piece_type */
};

struct mf_tokenizer {
    int n, bos;      /* pieces; the id that begins a prompt. Id 0 is padding, which no text gives */
    char digest[17]; /* of the file */
    struct mf_lang_piece *piece;
    /* private */
    struct mf_lang_slot {
        uint32_t hash;
        int32_t id; /* + 1; 0: empty */
    } * slot;       /* hash table of the pieces that text may become; (mask + 1) */
    uint64_t mask;
    int32_t *user;                   /* ids of the user-defined pieces, in the order of their bytes */
    int32_t user_of[257], byte[256]; /* of those that begin with a byte, the first; the id of a byte */
    uint32_t longest;                /* bytes of a normal piece */
    struct mf_arena arena;
    void *map;
    size_t size;
};

/* Maps a tokenizer.model. MF_EFORMAT: it is no whole SentencePiece model, or one of another kind. */
int mf_tokenizer_open(struct mf_tokenizer *t, const char *path, struct mf_err *err);
/* The same from memory, which must outlive t. */
int mf_tokenizer_parse(struct mf_tokenizer *t, const void *bytes, size_t size, const char *name, struct mf_err *err);
void mf_tokenizer_close(struct mf_tokenizer *t); /* a zeroed one is fine */

/* The ids of a text, the first `max` of them into ids. Returns how many there are, or an error (memory, a text of more
 * than 16 MiB). Malformed UTF-8 becomes U+FFFD. */
int mf_tokenizer_encode(const struct mf_tokenizer *t, const char *text, int32_t *ids, int max, struct mf_err *err);

/* For lib/lang: the id of a normal or user-defined piece; -1: there is none. */
int32_t mf_tokenizer_find(const struct mf_tokenizer *t, const char *text, uint32_t n);

#endif
