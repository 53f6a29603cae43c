/* plain.h - text out of a file, for a terminal. */
#ifndef MF_BASE_PLAIN_H
#define MF_BASE_PLAIN_H

#include <stdio.h>

/* Writes the text, filled up with blanks to `width` bytes. Control characters, which begin lines and give the terminal
 * commands, become '?'. */
void mf_plain(const char *text, int width, FILE *to);

#endif
