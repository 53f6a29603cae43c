/* Quotes words for a shell, and for hints in error messages. */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "conf/parse.h"

void mf_shell_print(const char *s, FILE *to)
{
    const bool plain = !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=+-@%,")] && *s;
    if (plain) {
        fputs(s, to);
        return;
    }
    putc('\'', to);
    for (; *s; s++)
        fputs(*s == '\'' ? "'\\''" : (char[]){*s, '\0'}, to);
    putc('\'', to);
}

/* Backslashes escape only before a quote: there they are doubled. */
static char *as_text(const char *key, const char *text)
{
    char *word, *of_shell;
    size_t n;
    FILE *to = open_memstream(&word, &n);
    fprintf(to, "%s=\"", key);
    for (const char *s = text; *s; s++) {
        const size_t slashes = strspn(s, "\\");
        const bool quote = s[slashes] == '"' || !s[slashes];
        for (size_t i = 0; i < (quote ? 2 * slashes : slashes); i++)
            putc('\\', to);
        s += slashes;
        if (!*s)
            break;
        fprintf(to, "%s%c", *s == '"' ? "\\" : "", *s);
    }
    putc('"', to);
    fclose(to);
    to = open_memstream(&of_shell, &n);
    mf_shell_print(word, to);
    fclose(to);
    free(word);
    return of_shell;
}

int mf_word_hint(const char *key, const char *text, struct mf_err *err)
{
    const int i = mf_key_find(key);
    const struct mf_err why = *err;
    if (i < 0 || mf_keys[i].type != MF_STR)
        return why.code;
    char *word = as_text(key, text);
    if (strlen(word) > 250)
        mf_err_set(err, why.code, "%.200s; quote a text for the shell and for this grammar: '%.100s=\"..\"'", why.text,
                   key);
    else
        mf_err_set(err, why.code, "%.200s; quote a text for the shell and for this grammar: %s", why.text, word);
    free(word);
    return why.code;
}
