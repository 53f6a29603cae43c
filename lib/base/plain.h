/* plain.h - text out of a file, for a terminal. */
#ifndef MF_BASE_PLAIN_H
#define MF_BASE_PLAIN_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of the control character that begins here, which begins a line or gives the terminal a command: 1 (C0 and DEL),
 * 2 (C1, U+0080 to U+009F in UTF-8); 0: it is none. */
size_t mf_control(const char *text, size_t n);

/* Copies n bytes, with a '?' for each control character; `to` may be the text. Returns how many there are then. */
size_t mf_plain_copy(char *to, const char *text, size_t n);

/* Writes the text so, filled up with blanks to `width` bytes. */
void mf_plain(const char *text, int width, FILE *to);

#endif
