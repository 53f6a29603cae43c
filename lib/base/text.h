/* text.h - strings: prefixes and suffixes, lists of words, backslash escapes. */
#ifndef MF_BASE_TEXT_H
#define MF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool mf_starts(const char *text, const char *with);
bool mf_ends(const char *text, const char *with);

/* Of words in one text, "a|b|c": the position of one, or -1; and the one at a position, *n bytes long. */
int mf_word_find(const char *words, const char *word);
const char *mf_word_at(const char *words, int i, int *n);

/* Appends a word to a list of `size` bytes at most, after `between` unless it is the first; cut to fit. */
void mf_list_add(char *list, size_t size, const char *between, const char *word);

uint64_t mf_text_hash(const char *text); /* FNV-1a */
uint64_t mf_bytes_hash(const void *bytes, size_t n);

/* Copies the text with a backslash before each backslash and each character of `special`: at most twice its bytes and
 * the NUL. Returns `to`. */
char *mf_escape(char *to, const char *text, const char *special);
/* The way back, up to the end or a character of `stop` that has no backslash: the bytes that were read of the text.
 * `to` has room for as many and the NUL; NULL: they are only counted. */
size_t mf_unescape(char *to, const char *text, const char *stop);

/* Bytes of the UTF-8 character that begins the n > 0 bytes at s; 0: none does (overlong, a surrogate, cut). */
size_t mf_utf8(const void *s, size_t n);
bool mf_is_utf8(const void *s, size_t n); /* the n bytes are whole characters */

#endif
