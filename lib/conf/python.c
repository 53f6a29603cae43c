/* Values as Python prints them, and so OmegaConf in a text. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/item.h"

/* Python writes exponents from 1e16 up and below 1e-4. */
void mf_float_text(char *to, size_t size, double f)
{
    if (!isfinite(f)) {
        snprintf(to, size, isnan(f) ? ".nan" : f > 0 ? ".inf" : "-.inf");
        return;
    }
    int digits = 0;
    do
        snprintf(to, size, "%.*e", digits, f);
    while (strtod(to, NULL) != f && ++digits < 17);
    const int exponent = atoi(strchr(to, 'e') + 1), decimals = digits - exponent;
    if (exponent >= -4 && exponent < 16)
        snprintf(to, size, "%.*f", decimals > 1 ? decimals : 1, f);
}

/* In single quotes, or in double ones where that saves an escape. */
static void put_quoted(const char *s, FILE *to)
{
    static const char specials[] = "\n\t\r\\", letters[] = "ntr\\";
    const char quote = strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'';
    putc(quote, to);
    for (; *s; s++) {
        const char *special = strchr(specials, *s);
        if (special)
            fprintf(to, "\\%c", letters[special - specials]);
        else if (*s == quote)
            fprintf(to, "\\%c", *s);
        else if (iscntrl((unsigned char)*s))
            fprintf(to, "\\x%02x", (unsigned char)*s);
        else
            putc(*s, to);
    }
    putc(quote, to);
}

static void put(const struct mf_item *x, bool inside, FILE *to)
{
    char text[40];
    switch (x->is) {
    case MF_IS_NULL:
        fputs("None", to);
        break;
    case MF_IS_BOOL:
        fputs(x->b ? "True" : "False", to);
        break;
    case MF_IS_INT:
        fprintf(to, "%lld", (long long)x->i);
        break;
    case MF_IS_FLOAT:
        mf_float_text(text, sizeof text, x->f);
        fputs(isnan(x->f) ? "nan" : isinf(x->f) ? x->f > 0 ? "inf" : "-inf" : text, to);
        break;
    case MF_IS_TEXT:
        if (inside)
            put_quoted(x->text, to);
        else
            fputs(x->text, to);
        break;
    default:
        putc(x->is == MF_IS_MAP ? '{' : '[', to);
        for (int i = 0; i < x->n; i++) {
            fputs(i ? ", " : "", to);
            if (x->name) {
                put_quoted(x->name[i], to);
                fputs(": ", to);
            }
            put(x->child[i], true, to);
        }
        putc(x->is == MF_IS_MAP ? '}' : ']', to);
    }
}

char *mf_item_str(const struct mf_item *x)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    put(x, false, to);
    fclose(to);
    return text;
}
