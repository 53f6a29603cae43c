/* html.h - text and files as parts of a page. */
#ifndef MF_PLOT_HTML_H
#define MF_PLOT_HTML_H

#include <stdbool.h>
#include <stdio.h>

/* As the text of an element or of a quoted attribute, also in XML: what is markup is escaped, what is no UTF-8 or no
 * character of XML becomes U+FFFD. */
void mf_html_text(const char *s, FILE *to);
/* A text, NULL as a "-", between markup. */
void mf_html_put(FILE *to, const char *before, const char *text, const char *after);
/* The bytes of FOLDER/NAME as "data:TYPE;base64,..". false, and nothing is put, where it cannot be read, is a link out
 * of the folder or larger than most. */
bool mf_html_data(const char *folder, const char *name, const char *type, size_t most, FILE *to);

#endif
