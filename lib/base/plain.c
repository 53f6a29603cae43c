#include "base/plain.h"

#include <ctype.h>

void mf_plain(const char *text, int width, FILE *to)
{
    for (; *text; text++, width--)
        putc(iscntrl((unsigned char)*text) ? '?' : *text, to);
    for (; width > 0; width--)
        putc(' ', to);
}
