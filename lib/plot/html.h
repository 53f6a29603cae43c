/* html.h - text and files as parts of an HTML page. */
#ifndef MF_PLOT_HTML_H
#define MF_PLOT_HTML_H

#include <stdbool.h>
#include <stdio.h>

/* Prints the text of an element or a quoted attribute, also for XML: escapes markup; bytes that are not UTF-8 or not an
 * XML character become U+FFFD. */
void mf_html_text(const char *s, FILE *to);
/* Prints a text (NULL: "-") between markup. */
void mf_html_put(FILE *to, const char *before, const char *text, const char *after);
/* Prints the bytes of FOLDER/NAME as "data:TYPE;base64,..". false, and no output, if the file cannot be read, is a link
 * out of the folder, or has more than `most` bytes. */
bool mf_html_data(const char *folder, const char *name, const char *type, size_t most, FILE *to);

#endif
