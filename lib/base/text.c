#include "base/text.h"

#include <string.h>

bool mf_starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

bool mf_ends(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && !strcmp(text + n - m, with);
}

char *mf_escape(char *to, const char *text, const char *special)
{
    char *const start = to;
    for (; *text; *to++ = *text++)
        if (*text == '\\' || strchr(special, *text))
            *to++ = '\\';
    *to = '\0';
    return start;
}

size_t mf_unescape(char *to, const char *text, const char *stop)
{
    const char *p = text;
    for (; *p && !strchr(stop, *p); p++) {
        p += *p == '\\' && p[1];
        if (to)
            *to++ = *p;
    }
    if (to)
        *to = '\0';
    return (size_t)(p - text);
}
