#include "plot/html.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

void mf_html_text(const char *s, FILE *to)
{
    static const char markup[] = "<>&\"'";
    static const char *const escaped[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    for (size_t left = strlen(s), n; left; s += n, left -= n) {
        const size_t whole = mf_utf8(s, left);
        const char *special = strchr(markup, *s);
        const bool none = ((unsigned char)*s < ' ' && *s != '\n' && *s != '\t') || !strncmp(s, "\xef\xbf\xbe", 3) ||
                          !strncmp(s, "\xef\xbf\xbf", 3); /* U+FFFE and U+FFFF are none of XML's */
        n = whole ? whole : 1;
        if (special)
            fputs(escaped[special - markup], to);
        else if (!whole || none)
            fputs("\xef\xbf\xbd", to);
        else
            fwrite(s, 1, n, to);
    }
}

void mf_html_put(FILE *to, const char *before, const char *text, const char *after)
{
    fputs(before, to);
    mf_html_text(text ? text : "-", to);
    fputs(after, to);
}

static void put_base64(const unsigned char *p, size_t n, FILE *to)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; n; p += n < 3 ? n : 3, n -= n < 3 ? n : 3) {
        const unsigned v = (unsigned)p[0] << 16 | (n > 1 ? (unsigned)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);
        const char four[4] = {digit[v >> 18], digit[v >> 12 & 63], n > 1 ? digit[v >> 6 & 63] : '=',
                              n > 2 ? digit[v & 63] : '='};
        fwrite(four, 1, 4, to);
    }
}

bool mf_html_data(const char *folder, const char *name, const char *type, size_t most, FILE *to)
{
    struct mf_err ignored;
    FILE *f = mf_file_read_in(folder, name, &ignored);
    if (!f)
        return false;
    unsigned char *bytes = mf_xcalloc(most + 1, 1);
    const size_t n = fread(bytes, 1, most + 1, f);
    const bool good = n > 0 && n <= most && !ferror(f);
    if (good) {
        fprintf(to, "data:%s;base64,", type);
        put_base64(bytes, n, to);
    }
    free(bytes);
    fclose(f);
    return good;
}
