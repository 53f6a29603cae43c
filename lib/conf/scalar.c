#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/value.h"

enum { NUMBER_MAX = 64 };

/* YAML 1.1 knows a word in three cases: null, Null, NULL. Hydra in any. */
static bool is_word(const char *text, const char *word, enum mf_grammar g)
{
    if (strcasecmp(text, word))
        return false;
    size_t upper = 0, n = strlen(text);
    for (size_t i = 0; i < n; i++)
        upper += isupper((unsigned char)text[i]) != 0;
    return g == MF_HYDRA || upper == 0 || upper == n || (upper == 1 && isupper((unsigned char)text[0]));
}

static const char *digits(const char *s, char **to, enum mf_grammar g)
{
    for (bool any = false; isdigit((unsigned char)*s) || (any && *s == '_'); s++) {
        if (*s != '_')
            *(*to)++ = *s;
        else if (g == MF_HYDRA && !isdigit((unsigned char)s[1]))
            break;
        any = true;
    }
    return s;
}

/* Copy a decimal number without its underscores. False: it is none. */
static bool decimal(const char *s, enum mf_grammar g, char *to, bool *point)
{
    *point = false;
    if (strlen(s) >= NUMBER_MAX)
        return false;
    if (*s == '+' || *s == '-')
        *to++ = *s++;
    const char *start = s;
    s = digits(s, &to, g);
    size_t whole = (size_t)(s - start);
    if (g == MF_HYDRA && whole > 1 && *start == '0')
        return false;
    if (*s == '.') {
        *point = true;
        *to++ = *s++;
        start = s;
        s = digits(s, &to, g);
        whole += (size_t)(s - start);
    }
    if (!whole)
        return false;
    if (*s == 'e' || *s == 'E') {
        *point = true;
        *to++ = *s++;
        if (*s == '+' || *s == '-')
            *to++ = *s++;
        start = s;
        s = digits(s, &to, g);
        if (s == start)
            return false;
    }
    *to = '\0';
    return *s == '\0';
}

/* The whole of `s` in this base, underscores skipped. */
static bool in_base(const char *s, int base, int64_t *v)
{
    char plain[NUMBER_MAX], *to = plain, *end;
    for (; *s && to < plain + NUMBER_MAX - 1; s++)
        if (*s != '_')
            *to++ = *s;
    *to = '\0';
    if (*s || !isxdigit((unsigned char)*plain))
        return false;
    errno = 0;
    *v = strtoll(plain, &end, base);
    return *end == '\0' && errno == 0;
}

/* 0b1, 0x1F, 017 and 1:30, which YAML 1.1 reads as 1, 31, 15 and 90. */
static bool yaml_int(const char *s, int64_t *v)
{
    int64_t sign = *s == '-' ? -1 : 1;
    s += *s == '-' || *s == '+';
    bool good = false;
    if (s[0] == '0' && s[1])
        good = s[1] == 'b' ? in_base(s + 2, 2, v) : s[1] == 'x' ? in_base(s + 2, 16, v) : in_base(s + 1, 8, v);
    else if (strchr(s, ':') && strlen(s) < 16) {
        good = *s >= '1' && *s <= '9';
        for (*v = 0; good && *s;) {
            char *end;
            long part = strtol(s, &end, 10);
            good = isdigit((unsigned char)*s) && (*v == 0 || part < 60) && (*end == ':' || !*end);
            *v = *v * 60 + part;
            s = end + (*end == ':');
        }
    }
    *v *= sign;
    return good;
}

static bool special(const char *s, enum mf_grammar g, double *f)
{
    double sign = *s == '-' ? -1 : 1;
    s += *s == '-' || *s == '+';
    if (g == MF_YAML && *s++ != '.')
        return false;
    *f = is_word(s, "inf", g) ? sign * (double)INFINITY : (double)NAN;
    return is_word(s, "inf", g) || is_word(s, "nan", MF_HYDRA);
}

static void classify(struct mf_scalar *s, enum mf_grammar g)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    const char *text = s->text;
    char plain[NUMBER_MAX];
    bool point;
    s->is = MF_IS_TEXT;
    if (is_word(text, "null", g) || (g == MF_YAML && (!*text || !strcmp(text, "~"))))
        s->is = MF_IS_NULL;
    for (int i = 0; i < (g == MF_YAML ? 3 : 1); i++)
        if (is_word(text, yes[i], g) || is_word(text, no[i], g))
            s->is = MF_IS_BOOL, s->b = is_word(text, yes[i], g);
    if (special(text, g, &s->f)) {
        s->is = MF_IS_FLOAT;
    } else if (g == MF_YAML && yaml_int(text, &s->i)) {
        s->is = MF_IS_INT, s->f = (double)s->i;
    } else if (decimal(text, g, plain, &point)) {
        errno = 0;
        s->f = strtod(plain, NULL);
        s->is = MF_IS_FLOAT;
        errno = 0;
        s->i = point ? 0 : strtoll(plain, NULL, 10);
        if (!point && errno == 0)
            s->is = MF_IS_INT;
        const char *body = plain + (*plain == '-' || *plain == '+');
        if (g == MF_YAML && !point && body[0] == '0' && body[1])
            s->is = MF_IS_TEXT; /* 08: no octal, so no number */
    }
}

void mf_value_release(struct mf_value *v)
{
    for (int i = 0; i < v->n; i++)
        free(v->item[i].text);
    *v = (struct mf_value){0};
}

int mf_value_add(struct mf_value *v, const char *text, bool quoted, enum mf_grammar g, struct mf_err *err)
{
    if (v->n == MF_LIST_MAX)
        return mf_err_set(err, MF_EUSAGE, "a list has at most %d items", MF_LIST_MAX);
    struct mf_scalar *s = &v->item[v->n++];
    s->text = mf_xstrdup(text);
    s->is = MF_IS_TEXT;
    if (!quoted)
        classify(s, g);
    return 0;
}

bool mf_scalar_is_plain(const char *text)
{
    struct mf_scalar s = {.text = mf_xstrdup(text)};
    classify(&s, MF_YAML);
    free(s.text);
    return s.is == MF_IS_TEXT && (isalpha((unsigned char)*text) || *text == '/') &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")] == '\0';
}

/* One scalar of a word, up to `stops` when in a list: *s moves on to what ends it. */
static int word_item(struct mf_value *v, const char **s, const char *stops, struct mf_err *err)
{
    const char *p = *s;
    char *buf = mf_xcalloc(strlen(p) + 1, 1), *to = buf;
    char quote = *p == '\'' || *p == '"' ? *p : '\0';
    bool text = quote != '\0';
    if (quote) {
        for (p++; *p && *p != quote; p++) {
            size_t slashes = strspn(p, "\\");
            if (slashes && p[slashes] == quote) { /* only before a quote does a backslash escape */
                to += slashes / 2, memset(to - slashes / 2, '\\', slashes / 2);
                p += slashes;
                if (slashes % 2 == 0)
                    break;
            }
            *to++ = *p;
        }
        if (*p++ != quote) {
            free(buf);
            return mf_err_set(err, MF_EUSAGE, "misses its closing %c", quote);
        }
    } else {
        for (; *p && !strchr(stops, *p); p++) {
            if (*p == '\\' && p[1] && strchr("\\()[]{}:=, \t", p[1]))
                text = true, p++;
            else if (strchr("[]{}(),'\"", *p)) {
                free(buf);
                return mf_err_set(err, MF_EUSAGE, "has a '%c' that must be quoted%s", *p,
                                  *p == ',' ? " (a list is written [a,b])" : "");
            }
            *to++ = *p;
        }
        while (to > buf && isspace((unsigned char)to[-1]) && !text)
            *--to = '\0';
    }
    p += strspn(p, " \t");
    *s = p;
    int rc = mf_value_add(v, buf, text || !*buf, MF_HYDRA, err);
    free(buf);
    return rc;
}

int mf_value_word(struct mf_value *v, const char *text, struct mf_err *err)
{
    int rc;
    const char *s = text + strspn(text, " \t");
    if (*s != '[') {
        rc = word_item(v, &s, "", err);
    } else {
        v->list = true;
        do {
            s += 1 + strspn(s + 1, " \t");
            if (*s == ']' && v->n == 0)
                break;
            if ((rc = word_item(v, &s, ",]", err)))
                return rc;
        } while (*s == ',');
        if (*s++ != ']')
            return mf_err_set(err, MF_EUSAGE, "misses its closing ]");
        s += strspn(s, " \t");
        rc = 0;
    }
    return rc || !*s ? rc : mf_err_set(err, MF_EUSAGE, "has '%s' after its end", s);
}
