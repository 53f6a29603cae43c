#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
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

int mf_word_find(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (int i = 0;; i++) {
        const size_t len = strcspn(words, "|");
        if (len == n && !strncmp(words, word, n))
            return i;
        if (!words[len])
            return -1;
        words += len + 1;
    }
}

const char *mf_word_at(const char *words, int i, int *n)
{
    while (i-- > 0)
        words = strchr(words, '|') + 1;
    *n = (int)strcspn(words, "|");
    return words;
}

void mf_list_add(char *list, size_t size, const char *between, const char *word)
{
    const size_t n = strlen(list);
    snprintf(list + n, size - n, "%s%s", n ? between : "", word);
}

uint64_t mf_bytes_hash(const void *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (const uint8_t *b = bytes; n > 0; n--, b++)
        h = (h ^ *b) * 0x100000001b3;
    return h;
}

uint64_t mf_text_hash(const char *text)
{
    return mf_bytes_hash(text, strlen(text));
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

size_t mf_utf8(const void *s, size_t n)
{
    const uint8_t *u = s;
    size_t len = u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 0;
    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    bool bad = (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) ||
               (u[0] == 0xf4 && u[1] > 0x8f);
    return bad ? 0 : len;
}

bool mf_is_utf8(const void *s, size_t n)
{
    size_t at = 0;
    for (size_t len; at < n && (len = mf_utf8((const char *)s + at, n - at)); at += len)
        ;
    return at == n;
}
