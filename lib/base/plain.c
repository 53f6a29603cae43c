#include "base/plain.h"

#include <string.h>

size_t mf_control(const char *text, size_t n)
{
    const unsigned char *u = (const unsigned char *)text;
    if (n > 1 && u[0] == 0xc2 && u[1] >= 0x80 && u[1] < 0xa0)
        return 2;
    return n > 0 && (u[0] < ' ' || u[0] == 0x7f);
}

size_t mf_plain_copy(char *to, const char *text, size_t n)
{
    char *const start = to;
    for (size_t i = 0, taken; i < n; i += taken) {
        const size_t control = mf_control(text + i, n - i);
        taken = control ? control : 1;
        *to++ = control ? '?' : text[i];
    }
    return (size_t)(to - start);
}

void mf_plain(const char *text, int width, FILE *to)
{
    for (size_t n = strlen(text), taken; n; text += taken, n -= taken, width--) {
        const size_t control = mf_control(text, n);
        taken = control ? control : 1;
        putc(control ? '?' : *text, to);
    }
    for (; width > 0; width--)
        putc(' ', to);
}
