#include "conf/resolve.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conf_priv.h"
#include "conf/parse.h"

struct text {
    char *s;
    size_t n;
};

static void append(struct text *t, const char *s, size_t n)
{
    t->s = mf_xrealloc(t->s, t->n + n + 1, 1);
    memcpy(t->s + t->n, s, n);
    t->s[t->n += n] = '\0';
}

/* The position after the } that closes the ${ at s; NULL: there is none. */
static const char *behind(const char *s)
{
    int depth = 0;
    for (char quote = '\0'; *s; s++) {
        if (quote)
            quote = *s == quote ? '\0' : quote;
        else if (depth && (*s == '\'' || *s == '"'))
            quote = *s;
        else if (*s == '{')
            depth++;
        else if (*s == '}' && --depth == 0)
            return s + 1;
    }
    return NULL;
}

/* ---- references ---- */

static int deep(struct mf_resolver *r, struct mf_item *x, struct mf_err *err)
{
    int rc = mf_resolve(r, x, err);
    for (int i = 0; i < x->n && rc == 0; i++)
        rc = deep(r, x->child[i], err);
    return rc;
}

/* Follows names joined with dots below `at`, and resolves each item on the way. A value in the place of a group,
 * policy:
 * ${..}, is the value of a reference to the group, and the second place to look for the group's names. */
static int descend(struct mf_resolver *r, struct mf_item *at, const char *path, struct mf_item **to, struct mf_err *err)
{
    while (at && *path) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "."), path);
        path += strcspn(path, ".");
        path += *path == '.';
        int rc = mf_resolve(r, at, err);
        if (rc)
            return rc;
        struct mf_item *next = mf_item_at(at, name), *brief = mf_item_brief(at);
        if (!next && brief && (rc = mf_resolve(r, brief, err)))
            return rc;
        at = next || !brief ? next : mf_item_at(brief, name);
    }
    if (at && mf_item_brief(at))
        at = mf_item_brief(at);
    *to = at;
    return at ? deep(r, at, err) : 0;
}

static int reference(struct mf_resolver *r, const struct mf_item *x, const char *path, struct mf_item **to,
                     struct mf_err *err)
{
    char plain[512], *p = plain;
    struct mf_item *found = NULL, *from = r->root;
    const bool relative = *path == '.';
    if (relative)
        from = x->brief ? x->up->up : x->up;
    for (; *path == '.' && path[1] == '.' && from; path++)
        from = from->up;
    for (path += *path == '.'; *path && p < plain + sizeof plain - 1; path++)
        if (*path != ']')
            *p++ = *path == '[' ? '.' : *path;
    *p = '\0';
    int rc = from ? descend(r, from, plain, &found, err) : 0;
    if (rc)
        return rc;
    if (!found && relative && from) { /* a sibling that no file sets */
        char name[1024], in[256];
        mf_item_path(from, in, sizeof in);
        snprintf(name, sizeof name, "%s%s%s", in, *in ? "." : "", plain);
        return mf_key_default(name, to);
    }
    if (!found)
        return mf_key_default(plain, to);
    r->made += mf_item_count(found);
    r->hopeless |= r->made > MF_ITEMS_MAX;
    if (r->hopeless)
        return mf_err_set(err, MF_EUSAGE, "its references expand it beyond the maximum size of a configuration");
    *to = mf_item_copy(found);
    return 0;
}

/* ---- resolvers ---- */

/* The next argument, up to a comma outside quotes and brackets, trimmed; NULL: there is none. */
static char *argument(char **s)
{
    char *from = *s, *p, quote = '\0';
    if (!from)
        return NULL;
    from += strspn(from, " ");
    *s = NULL;
    int depth = 0;
    for (p = from; *p && !*s; p++) {
        if (quote)
            quote = *p == quote ? '\0' : quote;
        else if (*p == '\'' || *p == '"')
            quote = *p;
        else if (*p == ',' && depth <= 0)
            *p = '\0', *s = p + 1;
        else
            depth += (strchr("[{(", *p) != NULL) - (strchr("]})", *p) != NULL);
    }
    for (size_t n = strlen(from); n && from[n - 1] == ' ';)
        from[--n] = '\0';
    return from;
}

/* 'a b' -> a b */
static char *unquoted(char *s)
{
    const size_t n = strlen(s);
    if (n < 2 || (*s != '\'' && *s != '"') || s[n - 1] != *s)
        return s;
    s[n - 1] = '\0';
    return s + 1;
}

/* The value is a text, or null; a key of another type converts it. */
static int environment(const char *name, const char *other, struct mf_item **to, struct mf_err *err)
{
    struct mf_item *x = NULL;
    const char *value = getenv(name);
    if (!value && !other)
        return mf_err_set(err, MF_EUSAGE,
                          "the environment variable %.64s is not set (${oc.env:%.64s,DEFAULT} has a default)", name,
                          name);
    int rc = value ? 0 : mf_word_value(&x, other, err);
    if (rc || (x && x->is == MF_IS_NULL)) {
        *to = x;
        return rc;
    }
    char *text = value ? mf_xstrdup(value) : mf_item_str(x);
    *to = mf_item_scalar(text, true, MF_YAML);
    mf_item_free(x);
    free(text);
    return 0;
}

static int call(struct mf_resolver *r, const struct mf_item *x, const char *name, char *args, struct mf_item **to,
                struct mf_err *err)
{
    char *rest = args, stamp[256];
    if (!strcmp(name, "eval"))
        return mf_arithmetic(unquoted(argument(&rest)), to, err);
    if (!strcmp(name, "now")) {
        time_t now = time(NULL);
        struct tm tm;
        stamp[strftime(stamp, sizeof stamp, args, localtime_r(&now, &tm))] = '\0';
        *to = mf_item_scalar(stamp, true, MF_YAML);
        return 0;
    }
    char *first = unquoted(argument(&rest)), *other = rest ? argument(&rest) : NULL;
    if (!strcmp(name, "oc.decode"))
        return mf_word_value(to, first, err);
    if (!strcmp(name, "oc.select")) {
        int rc = reference(r, x, first, to, err);
        return rc || *to ? rc : mf_word_value(to, other ? other : "null", err);
    }
    if (!strcmp(name, "oc.env"))
        return environment(first, other, to, err);
    return mf_err_set(err, MF_EUSAGE, "unknown resolver '%.64s' (available: eval, now, oc.decode, oc.env, oc.select)",
                      name);
}

/* ---- text ---- */

static int expand(struct mf_resolver *r, const struct mf_item *x, const char *s, struct mf_item **to,
                  struct mf_err *err);

/* The value of the text between ${ and }. */
static int inside(struct mf_resolver *r, const struct mf_item *x, char *s, struct mf_item **to, struct mf_err *err)
{
    if (r->keeps) {
        struct text whole = {0};
        append(&whole, "${", 2);
        append(&whole, s, strlen(s));
        append(&whole, "}", 1);
        *to = mf_item_scalar(whole.s, true, MF_YAML);
        free(whole.s);
        return 0;
    }
    const size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    struct mf_item *outer = NULL;
    char nearest[MF_NEAREST];
    int rc = 0;
    if (strstr(s, "${")) {
        if ((rc = expand(r, x, s, &outer, err)))
            return rc;
        if (!outer->text) {
            mf_item_free(outer);
            return mf_err_set(err, MF_EUSAGE, "${%.128s}: a nested reference must have a plain value", s);
        }
        s = outer->text;
    }
    *to = NULL;
    if (n && s[n] == ':') {
        s[n] = '\0';
        rc = call(r, x, s, s + n + 1, to, err);
    } else {
        rc = reference(r, x, s, to, err);
        if (rc == 0 && !*to) {
            mf_key_nearest(s, nearest, sizeof nearest);
            rc = mf_err_set(err, MF_EUSAGE, "${%.128s}: no such key, nearest is %s; write \\${ for a literal ${", s,
                            nearest);
        }
    }
    mf_item_free(outer);
    return rc;
}

static size_t slashes_before(const char *at, const char *from)
{
    size_t n = 0;
    while (at - n > from && at[-1 - (ptrdiff_t)n] == '\\')
        n++;
    return n;
}

/* Copies text up to the next reference, or the end. \${ is a literal ${. Backslashes escape only before ${. */
static const char *literal(struct text *out, const char *s)
{
    for (const char *open; (open = strstr(s, "${")); s = open + 2) {
        const size_t slashes = slashes_before(open, s);
        append(out, s, (size_t)(open - s) - (slashes + 1) / 2);
        if (slashes % 2 == 0)
            return open;
        append(out, open, 2);
    }
    append(out, s, strlen(s));
    return s + strlen(s);
}

char *mf_escaped(const char *s)
{
    struct text out = {0};
    for (const char *open; (open = strstr(s, "${")); s = open + 2) {
        append(&out, s, (size_t)(open - s));
        append(&out, open - slashes_before(open, s), slashes_before(open, s));
        append(&out, "\\${", 3);
    }
    append(&out, s, strlen(s));
    return out.s;
}

/* Replaces every ${..} in a text. A text that is a single ${..} becomes its value, of any type. */
static int expand(struct mf_resolver *r, const struct mf_item *x, const char *s, struct mf_item **to,
                  struct mf_err *err)
{
    struct text out = {0};
    int rc = 0;
    for (const char *from = s; rc == 0 && *(s = literal(&out, s));) {
        const char *end = behind(s);
        if (!end) {
            rc = mf_err_set(err, MF_EUSAGE, "'%.128s' lacks its closing }", s);
            break;
        }
        struct text body = {0};
        struct mf_item *got = NULL;
        append(&body, s + 2, (size_t)(end - s - 3));
        rc = inside(r, x, body.s, &got, err);
        free(body.s);
        if (rc == 0 && s == from && !*end) {
            *to = got;
            free(out.s);
            return 0;
        }
        char *text = rc ? NULL : mf_item_str(got);
        if (text)
            append(&out, text, strlen(text));
        free(text);
        mf_item_free(got);
        s = end;
    }
    if (rc == 0)
        *to = mf_item_scalar(out.s, true, MF_YAML);
    free(out.s);
    return rc;
}

static int cycle(struct mf_resolver *r, const struct mf_item *x, struct mf_err *err)
{
    char all[400] = "", path[128];
    int i = 0;
    while (r->chain[i] != x)
        i++;
    for (; i < r->depth; i++) {
        mf_item_path(r->chain[i], path, sizeof path);
        const size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s -> ", path);
    }
    mf_item_path(x, path, sizeof path);
    r->hopeless = true;
    return mf_err_set(err, MF_EUSAGE, "a cycle: %s%s", all, path);
}

int mf_resolve(struct mf_resolver *r, struct mf_item *x, struct mf_err *err)
{
    if (x->state == MF_RESOLVED || x->is != MF_IS_TEXT || !strstr(x->text, "${"))
        return 0;
    if (x->state == MF_RESOLVING)
        return cycle(r, x, err);
    if (r->depth == MF_CHAIN_MAX)
        return mf_err_set(err, MF_EUSAGE, "a chain of more than %d references", MF_CHAIN_MAX);
    struct mf_item *value;
    r->chain[r->depth++] = x;
    x->state = MF_RESOLVING;
    int rc = expand(r, x, x->text, &value, err);
    r->depth--;
    x->state = rc ? MF_RAW : MF_RESOLVED;
    if (rc == 0) {
        mf_item_become(x, value);
    } else if (!r->placed) { /* the position of the faulty item, not of a reference to it */
        char path[128];
        mf_item_path(x, path, sizeof path);
        mf_err_at(err, "%.256s%s%s", x->where ? x->where : "", x->where ? ": " : "", path);
    }
    r->placed = rc && r->depth;
    return rc;
}
