#include "base/name.h"

#include <string.h>

const char *mf_name_fault(const char *name)
{
    if (!*name)
        return "is empty";
    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return "is the name of a folder above";
    if (strchr(name, '/'))
        return "contains '/'";
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return "contains a control character";
    return strlen(name) < MF_NAME_BYTES ? NULL : "is longer than 63 bytes";
}

void mf_name_plain(char to[MF_NAME_BYTES], const char *text)
{
    size_t n = 0;
    for (; text[n] && n < MF_NAME_BYTES - 1; n++) {
        const unsigned char c = (unsigned char)text[n];
        to[n] = text[n];
        if (c < ' ' || c == 127 || c == '/' || (c == '.' && n == 0))
            to[n] = '_';
    }
    if (n == 0)
        to[n++] = '_';
    to[n] = '\0';
}
