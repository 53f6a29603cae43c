/* plain.h - untrusted text, made safe for a terminal. */
#ifndef MF_BASE_PLAIN_H
#define MF_BASE_PLAIN_H

#include <stddef.h>
#include <stdio.h>

/* Length in bytes of the control character at text: 1 (C0 and DEL), 2 (C1, U+0080 to U+009F in UTF-8); 0: not a control
 * character. */
size_t mf_control(const char *text, size_t n);

/* Copies n bytes with '?' for each control character, also in place. Returns the number of bytes written. */
size_t mf_plain_copy(char *to, const char *text, size_t n);

/* Prints the text in this form, padded with blanks to `width` bytes. */
void mf_plain(const char *text, int width, FILE *to);

#endif
