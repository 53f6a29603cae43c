#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "conf/item.h"

enum { NUMBER_MAX = 64 };

/* YAML 1.1 has three forms of a word: null, Null, NULL. Hydra ignores case. */
static bool is_word(const char *text, const char *word, enum mf_grammar g)
{
    if (strcasecmp(text, word))
        return false;
    size_t upper = 0, n = strlen(text);
    for (size_t i = 0; i < n; i++)
        upper += isupper((unsigned char)text[i]) != 0;
    return g == MF_HYDRA || upper == 0 || upper == n || (upper == 1 && isupper((unsigned char)text[0]));
}

/* Copies digits without underscores. One underscore is allowed between two digits; with any_underscores, in some places
 * of YAML, any number anywhere. */
static const char *digits(const char *s, char **to, bool any_underscores)
{
    for (const char *from = s; isdigit((unsigned char)*s) || (*s == '_' && s > from); s++)
        if (*s != '_')
            *(*to)++ = *s;
        else if (!any_underscores && !isdigit((unsigned char)s[1]))
            break;
    return s;
}

/* Copies a decimal number without underscores. False: it is none. YAML's numbers follow OmegaConf: a number that begins
 * with a point has no sign, and its exponent needs one. */
static bool decimal(const char *s, enum mf_grammar g, char *to, bool *point)
{
    *point = false;
    if (strlen(s) >= NUMBER_MAX)
        return false;
    const bool sign = *s == '+' || *s == '-';
    if (sign)
        *to++ = *s++;
    const char *start = s;
    s = digits(s, &to, g == MF_YAML && strchr(s, '.'));
    const bool bare = s == start, strict = g == MF_YAML && bare;
    if ((g == MF_HYDRA && s > start + 1 && *start == '0') || (strict && sign) ||
        (bare && (*s != '.' || !isdigit((unsigned char)s[1]))))
        return false;
    if ((*point = *s == '.')) {
        *to++ = *s++;
        s = digits(s, &to, g == MF_YAML);
    }
    if (*s == 'e' || *s == 'E') {
        *point = true;
        *to++ = *s++;
        if (*s == '+' || *s == '-')
            *to++ = *s++;
        else if (strict)
            return false;
        start = s;
        s = digits(s, &to, false);
        if (s == start || (g == MF_YAML && memchr(start, '_', (size_t)(s - start))))
            return false;
    }
    *to = '\0';
    return *s == '\0';
}

/* All of `s` in this base, underscores skipped. */
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

/* 0b1, 0x1F, 017, 1__0 and 1:30, which YAML 1.1 reads as 1, 31, 15, 10 and 90. */
static bool yaml_int(const char *s, int64_t *v)
{
    int64_t sign = *s == '-' ? -1 : 1;
    s += *s == '-' || *s == '+';
    bool good = false;
    if (s[0] == '0' && s[1])
        good = s[1] == 'b' ? in_base(s + 2, 2, v) : s[1] == 'x' ? in_base(s + 2, 16, v) : in_base(s, 8, v);
    else if (strchr(s, ':')) {
        good = *s >= '1' && *s <= '9' && strlen(s) < 16;
        for (*v = 0; good && *s;) {
            char *end;
            long part = strtol(s, &end, 10);
            good = isdigit((unsigned char)*s) && (*v == 0 || part < 60) && (*end == ':' || !*end);
            *v = *v * 60 + part;
            s = end + (*end == ':');
        }
    } else {
        good = *s >= '1' && *s <= '9' && !s[strspn(s, "0123456789_")] && in_base(s, 10, v);
    }
    *v *= sign;
    return good;
}

static bool special(const char *s, enum mf_grammar g, double *f)
{
    const bool sign = *s == '-' || *s == '+';
    const double infinity = *s == '-' ? -(double)INFINITY : (double)INFINITY;
    s += sign;
    if (g == MF_YAML && *s++ != '.')
        return false;
    *f = is_word(s, "inf", g) ? infinity : (double)NAN;
    return is_word(s, "inf", g) || (is_word(s, "nan", MF_HYDRA) && !(sign && g == MF_YAML));
}

static void classify(struct mf_item *s, enum mf_grammar g)
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
            s->is = MF_IS_TEXT; /* 08 is not octal, so a text */
    }
}

struct mf_item *mf_item_scalar(const char *text, bool quoted, enum mf_grammar g)
{
    struct mf_item *x = mf_xcalloc(1, sizeof *x);
    x->text = mf_xstrdup(text);
    x->is = MF_IS_TEXT;
    if (!quoted)
        classify(x, g);
    return x;
}
