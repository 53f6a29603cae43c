#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/parse.h"

enum { DEPTH_MAX = 16, SWEEP_MAX = 10000, KEY_MAX = 256 };

static int value(const char **s, const char *stops, int depth, struct mf_item **to, struct mf_err *err);

static void blanks(const char **s)
{
    *s += strspn(*s, " \t");
}

static bool quoted(const char **s, char *to, struct mf_err *err)
{
    const char *p = *s, quote = *p++;
    for (; *p && *p != quote; p++) {
        const size_t slashes = strspn(p, "\\");
        if (slashes && p[slashes] == quote) { /* backslashes escape only before a quote */
            to += slashes / 2, memset(to - slashes / 2, '\\', slashes / 2);
            p += slashes;
            if (slashes % 2 == 0)
                break;
        }
        *to++ = *p;
    }
    *s = p + 1;
    if (*p != quote)
        mf_err_set(err, MF_EUSAGE, "lacks its closing %c", quote);
    return *p == quote;
}

/* Copies ${a.b} with all nested references. */
static const char *interpolation(const char *p, char **to)
{
    int depth = 0;
    do {
        depth += *p == '{';
        depth -= *p == '}';
        *(*to)++ = *p++;
    } while (*p && (depth || p[-1] == '$'));
    return p;
}

/* Copies the host [::1] of tcp://[::1]:5555, which is no list. Returns the position after it, or p. */
static const char *ipv6_host(const char *p, const char *read, char **to)
{
    static const char tcp[] = "tcp://";
    const char *end = strchr(p, ']');
    if (*p != '[' || !end || *to - read != sizeof tcp - 1 || memcmp(read, tcp, sizeof tcp - 1))
        return p;
    while (p <= end)
        *(*to)++ = *p++;
    return p;
}

static int scalar(const char **s, const char *stops, struct mf_item **to, struct mf_err *err)
{
    const char *p = *s;
    char *buf = mf_xcalloc(strlen(p) + 1, 1), *end = buf;
    bool text = *p == '\'' || *p == '"', escaped = false;
    if (text && !quoted(&p, buf, err)) {
        free(buf);
        return err->code;
    }
    while (!text && *p && !strchr(stops, *p)) {
        if (*p == '$' && p[1] == '{') {
            p = interpolation(p, &end);
            continue;
        }
        const char *host = p;
        if ((p = ipv6_host(p, buf, &end)) != host)
            continue;
        if (*p == '\\' && p[1] && strchr("\\()[]{}:=, \t", p[1]))
            p++, escaped = true;
        else if (strchr("[]{}(),'\"", *p)) {
            free(buf);
            return mf_err_set(err, MF_EUSAGE, "has a '%c' that must be quoted", *p);
        }
        *end++ = *p++;
    }
    text |= escaped;
    while (!text && end > buf && isspace((unsigned char)end[-1]))
        *--end = '\0';
    blanks(&p);
    *to = mf_item_scalar(buf, text || !*buf, MF_HYDRA);
    *s = p;
    free(buf);
    return 0;
}

/* Reads the separator after an item. Returns 0 for a comma, 1 for the end, or an error. */
static int separator(const char **s, char end, struct mf_err *err)
{
    blanks(s);
    const char c = **s;
    *s += c != '\0';
    return c == ',' ? 0 : c == end ? 1 : mf_err_set(err, MF_EUSAGE, "lacks its closing %c", end);
}

static int list(const char **s, int depth, struct mf_item *x, struct mf_err *err)
{
    int rc = 0;
    ++*s, blanks(s);
    if (**s == ']')
        return ++*s, 0;
    while (rc == 0) {
        struct mf_item *child;
        blanks(s);
        if ((rc = value(s, ",]", depth, &child, err)))
            return rc;
        mf_item_add(x, child);
        rc = separator(s, ']', err);
    }
    return rc < 0 ? rc : 0;
}

static int map(const char **s, int depth, struct mf_item *x, struct mf_err *err)
{
    int rc = 0;
    ++*s, blanks(s);
    if (**s == '}')
        return ++*s, 0;
    while (rc == 0) {
        struct mf_item *name, *child;
        blanks(s);
        if ((rc = scalar(s, ":,}", &name, err)))
            return rc;
        if (*(*s)++ != ':') {
            mf_item_free(name);
            return mf_err_set(err, MF_EUSAGE, "must be {name: value, ..}");
        }
        blanks(s);
        if ((rc = value(s, ",}", depth, &child, err)) == 0)
            mf_item_put(x, name->text, child);
        mf_item_free(name);
        if (rc)
            return rc;
        rc = separator(s, '}', err);
    }
    return rc < 0 ? rc : 0;
}

static int value(const char **s, const char *stops, int depth, struct mf_item **to, struct mf_err *err)
{
    if (depth > DEPTH_MAX)
        return mf_err_set(err, MF_EUSAGE, "is nested more than %d deep", DEPTH_MAX);
    if (**s != '[' && **s != '{')
        return scalar(s, stops, to, err);
    struct mf_item *x = **s == '[' ? mf_item_list() : mf_item_map();
    int rc = x->is == MF_IS_LIST ? list(s, depth + 1, x, err) : map(s, depth + 1, x, err);
    blanks(s);
    if (rc)
        mf_item_free(x);
    else
        *to = x;
    return rc;
}

static int choose(struct mf_word *w, struct mf_item *x, const char *text, size_t n, struct mf_err *err)
{
    if (w->n == SWEEP_MAX) {
        mf_item_free(x);
        return mf_err_set(err, MF_EUSAGE, "has more than %d values", SWEEP_MAX);
    }
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    w->choice = mf_xrealloc(w->choice, (size_t)w->n + 1, sizeof *w->choice);
    struct mf_choice *c = &w->choice[w->n++];
    *c = (struct mf_choice){x, mf_xcalloc(n + 1, 1)};
    memcpy(c->text, text, n);
    return 0;
}

/* One value, or several separated by commas, up to `end`. */
static int choices(struct mf_word *w, const char **s, char end, struct mf_err *err)
{
    const char stops[] = {',', end, '\0'};
    for (;; ++*s) {
        struct mf_item *x;
        blanks(s);
        const char *from = *s;
        int rc = value(s, stops, 0, &x, err);
        if (rc || (rc = choose(w, x, from, (size_t)(*s - from), err)) || **s != ',')
            return rc;
    }
}

/* The index of the next argument of a function: by name, as step=2, or by position. */
static int argument(const char **s, const char *const *names, int n, int place)
{
    ++*s, blanks(s);
    for (int i = 0; i < n; i++) {
        const size_t size = strlen(names[i]);
        const char *at = *s + size;
        if (strncmp(*s, names[i], size) != 0)
            continue;
        blanks(&at);
        if (*at == '=') {
            *s = at + 1, blanks(s);
            return i;
        }
    }
    return place;
}

/* range(stop), range(start,stop), range(start,stop,step), without stop itself. Integers give integers; other values are
 * rounded to 15 digits. */
static int range(struct mf_word *w, const char **s, struct mf_err *err)
{
    static const char *const names[] = {"start", "stop", "step"};
    double v[3] = {0, 0, 1};
    bool given[3] = {false}, whole = true, good = true;
    for (int n = 0; good && (n == 0 || **s == ','); n++) {
        const int i = argument(s, names, 3, n);
        char *end = NULL;
        if ((good = i < 3 && !given[i])) {
            v[i] = strtod(*s, &end);
            good = given[i] = end > *s && isfinite(v[i]);
            whole &= !memchr(*s, '.', (size_t)(end - *s)) && v[i] == rint(v[i]) && !memchr(*s, 'e', (size_t)(end - *s));
            *s = end, blanks(s);
        }
    }
    if (!given[1])
        v[1] = v[0], v[0] = 0;
    if (!good || !given[0] || v[2] == 0 || **s != ')')
        return mf_err_set(err, MF_EUSAGE, "must be range(start,stop,step)");
    ++*s;
    for (int i = 0;; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.15g", v[0] + i * v[2]); /* 0.3, not 0.30000000000000004 */
        const double x = strtod(text, NULL);
        if (v[2] > 0 ? x >= v[1] : x <= v[1])
            break;
        if (!whole)
            mf_float_text(text, sizeof text, x);
        int rc = choose(w, mf_item_scalar(text, false, MF_HYDRA), text, strlen(text), err);
        if (rc)
            return rc;
    }
    return w->n ? 0 : mf_err_set(err, MF_EUSAGE, "is an empty range");
}

/* glob(pattern), glob([a*,b*],exclude=c*): load.c expands the patterns. */
static int glob(struct mf_word *w, const char **s, struct mf_err *err)
{
    static const char *const names[] = {"include", "exclude"};
    w->glob = mf_item_map();
    for (int n = 0; n == 0 || **s == ','; n++) {
        struct mf_item *x;
        const int i = argument(s, names, 2, n);
        int rc = i < 2 ? value(s, ",)", 0, &x, err) : mf_err_set(err, MF_EUSAGE, "must be glob(include,exclude)");
        if (rc)
            return rc;
        mf_item_put(w->glob, names[i], x);
    }
    if (!mf_item_find(w->glob, "include") || *(*s)++ != ')')
        return mf_err_set(err, MF_EUSAGE, "must be glob(include,exclude)");
    return 0;
}

/* Refuses Hydra's other functions by name. */
static int unsupported(const char *s, struct mf_err *err)
{
    static const char *const names[] = {"sort", "shuffle", "interval", "tag",  "extend_list",
                                        "int",  "float",   "str",      "bool", "json_str"};
    const size_t n = strcspn(s, "(");
    for (size_t i = 0; s[n] && i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !strncmp(s, names[i], n))
            return mf_err_set(err, MF_EUSAGE,
                              "calls %s(..), which is not supported, like sort, shuffle and interval: list the values, "
                              "or use choice, range or glob",
                              names[i]);
    return 0;
}

static int right_side(struct mf_word *w, const char *s, struct mf_err *err)
{
    int rc;
    blanks(&s);
    if (!strncmp(s, "choice(", 7)) {
        s += 7;
        rc = choices(w, &s, ')', err);
        if (rc == 0 && *s++ != ')')
            return mf_err_set(err, MF_EUSAGE, "lacks its closing )");
    } else if (!strncmp(s, "range(", 6)) {
        s += 5;
        rc = range(w, &s, err);
    } else if (!strncmp(s, "glob(", 5)) {
        s += 4;
        rc = glob(w, &s, err);
    } else {
        rc = unsupported(s, err);
        rc = rc ? rc : choices(w, &s, '\0', err);
    }
    blanks(&s);
    return rc || !*s ? rc : mf_err_set(err, MF_EUSAGE, "has '%.64s' after its end", s);
}

int mf_word_read(struct mf_word *w, const char *text, struct mf_err *err)
{
    const char *s = text;
    *w = (struct mf_word){.act = *s == '~' ? MF_OVERRIDE_DELETE : MF_OVERRIDE_SET};
    if (!strncmp(s, "++", 2))
        w->act = MF_OVERRIDE_FORCE, s += 2;
    else if (*s == '+')
        w->act = MF_OVERRIDE_ADD, s++;
    s += w->act == MF_OVERRIDE_DELETE;
    const size_t n = strcspn(s, "=");
    if (n == 0 || (!s[n] && w->act != MF_OVERRIDE_DELETE))
        return mf_err_set(err, MF_EUSAGE, "'%.128s' is not key=value", text);
    if (n > KEY_MAX)
        return mf_err_set(err, MF_EUSAGE, "'%.64s...' is longer than any key", text);
    w->key = mf_xcalloc(n + 1, 1);
    memcpy(w->key, s, n);
    int rc = s[n] ? right_side(w, s + n + 1, err) : 0;
    if (rc) {
        mf_err_at(err, "%.128s", text);
        mf_word_hint(w->key, s + n + 1, err);
        mf_word_release(w);
    }
    return rc;
}

int mf_word_value(struct mf_item **to, const char *text, struct mf_err *err)
{
    struct mf_word w = {0};
    int rc = right_side(&w, text, err);
    if (rc == 0 && w.n != 1)
        rc = mf_err_set(err, MF_EUSAGE, "'%.128s' is not a single value", text);
    if (rc == 0) {
        *to = w.choice[0].value;
        w.choice[0].value = NULL;
    }
    mf_word_release(&w);
    return rc;
}

int mf_word_choose(struct mf_word *w, const char *text, struct mf_err *err)
{
    return choose(w, mf_item_scalar(text, true, MF_HYDRA), text, strlen(text), err);
}

void mf_word_release(struct mf_word *w)
{
    for (int i = 0; i < w->n; i++) {
        mf_item_free(w->choice[i].value);
        free(w->choice[i].text);
    }
    free(w->choice);
    free(w->key);
    mf_item_free(w->glob);
    *w = (struct mf_word){0};
}
