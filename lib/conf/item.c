#include "conf/item.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/plain.h"
#include "base/text.h"
#include "conf/resolve.h"

struct mf_item *mf_item_list(void)
{
    struct mf_item *x = mf_xcalloc(1, sizeof *x);
    x->is = MF_IS_LIST;
    return x;
}

struct mf_item *mf_item_map(void)
{
    struct mf_item *x = mf_xcalloc(1, sizeof *x);
    x->is = MF_IS_MAP;
    return x;
}

static void empty(struct mf_item *x)
{
    for (int i = 0; i < x->n; i++) {
        mf_item_free(x->child[i]);
        if (x->name)
            free(x->name[i]);
    }
    free(x->child);
    free(x->name);
    free(x->text);
}

void mf_item_free(struct mf_item *x)
{
    if (!x)
        return;
    empty(x);
    free(x->where);
    free(x);
}

struct mf_item *mf_item_copy(const struct mf_item *x)
{
    struct mf_item *y = mf_xcalloc(1, sizeof *y);
    *y = *x;
    y->text = x->text ? mf_xstrdup(x->text) : NULL;
    y->where = x->where ? mf_xstrdup(x->where) : NULL;
    y->up = NULL, y->child = NULL, y->name = NULL, y->n = 0;
    for (int i = 0; i < x->n; i++)
        if (x->is == MF_IS_MAP)
            mf_item_put(y, x->name[i], mf_item_copy(x->child[i]));
        else
            mf_item_add(y, mf_item_copy(x->child[i]));
    return y;
}

int mf_item_count(const struct mf_item *x)
{
    int n = 1 + (x->text ? (int)(strlen(x->text) / 32) : 0);
    for (int i = 0; i < x->n; i++)
        n += mf_item_count(x->child[i]);
    return n;
}

void mf_item_stamp(struct mf_item *x, int reading)
{
    x->reading = reading;
    for (int i = 0; i < x->n; i++)
        mf_item_stamp(x->child[i], reading);
}

void mf_item_become(struct mf_item *x, struct mf_item *value)
{
    struct mf_item was = *x;
    *x = *value;
    x->up = was.up, x->where = was.where, x->state = was.state, x->brief = was.brief;
    mf_item_stamp(x, was.reading);
    for (int i = 0; i < x->n; i++)
        x->child[i]->up = x;
    empty(&was);
    free(value->where);
    free(value);
}

struct mf_item *mf_item_brief(const struct mf_item *map)
{
    for (int i = 0; map->is == MF_IS_MAP && i < map->n; i++)
        if (map->child[i]->brief)
            return map->child[i];
    return NULL;
}

struct mf_item *mf_item_find(const struct mf_item *map, const char *name)
{
    for (int i = 0; map->name && i < map->n; i++)
        if (!strcmp(map->name[i], name))
            return map->child[i];
    return NULL;
}

struct mf_item *mf_item_at(const struct mf_item *root, const char *path)
{
    const struct mf_item *x = root;
    while (x && *path) {
        const size_t n = strcspn(path, ".");
        const struct mf_item *next = NULL;
        for (int i = 0; x->is == MF_IS_MAP && i < x->n; i++)
            if (!strncmp(x->name[i], path, n) && !x->name[i][n])
                next = x->child[i];
        if (x->is == MF_IS_LIST && isdigit((unsigned char)*path) && atoi(path) < x->n)
            next = x->child[atoi(path)];
        x = next;
        path += n + (path[n] == '.');
    }
    return (struct mf_item *)x;
}

/* Makes room for one more: the arrays double at every power of two. */
static void grow(struct mf_item *x)
{
    if (x->n & (x->n - 1))
        return;
    const size_t room = x->n ? 2 * (size_t)x->n : 1;
    x->child = mf_xrealloc(x->child, room, sizeof(struct mf_item *));
    if (x->is == MF_IS_MAP)
        x->name = mf_xrealloc(x->name, room, sizeof(char *));
}

void mf_item_add(struct mf_item *list, struct mf_item *child)
{
    grow(list);
    child->up = list;
    list->child[list->n++] = child;
}

void mf_item_put(struct mf_item *map, const char *name, struct mf_item *child)
{
    child->up = map;
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->name[i], name)) {
            mf_item_free(map->child[i]);
            map->child[i] = child;
            return;
        }
    grow(map);
    map->name[map->n] = mf_xstrdup(name);
    map->child[map->n++] = child;
}

void mf_item_put_at(struct mf_item *root, const char *path, struct mf_item *value)
{
    struct mf_item *x = root;
    char *names = mf_xstrdup(path), *rest = names, *name;
    if (!*path) {
        mf_item_merge(root, value);
        free(names);
        return;
    }
    while ((name = strsep(&rest, ".")) && rest) {
        struct mf_item *next = mf_item_find(x, name);
        if (!next || next->is != MF_IS_MAP) {
            next = mf_item_map();
            mf_item_put(x, name, next);
        }
        x = next;
    }
    mf_item_put(x, name, value);
    free(names);
}

void mf_item_merge(struct mf_item *map, struct mf_item *over)
{
    for (int i = 0; i < over->n; i++) {
        struct mf_item *mine = mf_item_find(map, over->name[i]), *his = over->child[i];
        if (mine && mine->is == MF_IS_MAP && his->is == MF_IS_MAP)
            mf_item_merge(mine, his);
        else
            mf_item_put(map, over->name[i], his);
        free(over->name[i]);
    }
    over->n = 0;
    mf_item_free(over);
}

void mf_item_remove(struct mf_item *x)
{
    struct mf_item *in = x->up;
    int i = 0;
    while (in->child[i] != x)
        i++;
    if (in->name)
        free(in->name[i]);
    for (in->n--; i < in->n; i++) {
        in->child[i] = in->child[i + 1];
        if (in->name)
            in->name[i] = in->name[i + 1];
    }
    mf_item_free(x);
}

void mf_item_path(const struct mf_item *x, char *to, size_t size)
{
    if (!x->up) {
        *to = '\0';
        return;
    }
    mf_item_path(x->up, to, size);
    if (x->brief)
        return;
    int i = 0;
    while (x->up->child[i] != x)
        i++;
    const size_t n = strlen(to);
    if (x->up->name)
        snprintf(to + n, size - n, "%s%s", n ? "." : "", x->up->name[i]);
    else
        snprintf(to + n, size - n, "[%d]", i);
}

void mf_text_print(const char *text, FILE *to)
{
    struct mf_item *x = mf_item_scalar(text, false, MF_YAML);
    const bool plain = x->is == MF_IS_TEXT && (isalpha((unsigned char)*text) || *text == '/') &&
                       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")] == '\0';
    mf_item_free(x);
    if (plain) {
        fputs(text, to);
        return;
    }
    size_t control;
    putc('"', to);
    for (const char *s = text; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if ((control = mf_control(s, strlen(s))))
            fprintf(to, "\\x%02X", (unsigned char)*(s += control - 1));
        else
            putc(*s, to);
    }
    putc('"', to);
}

void mf_value_print(const char *text, FILE *to)
{
    char *escaped = mf_escaped(text);
    mf_text_print(escaped, to);
    free(escaped);
}

/* As written, unless YAML reads that differently: Hydra's words allow inf, -.5 and TrUe. */
static void print_plain(const struct mf_item *x, FILE *to)
{
    struct mf_item *again = mf_item_scalar(x->text, false, MF_YAML);
    char text[32];
    mf_float_text(text, sizeof text, x->f);
    if (again->is == x->is && (x->is != MF_IS_FLOAT || again->f == x->f || isnan(x->f)))
        fputs(x->text, to);
    else
        fputs(x->is == MF_IS_FLOAT ? text : x->b ? "true" : "false", to);
    mf_item_free(again);
}

void mf_item_print(const struct mf_item *x, FILE *to)
{
    switch (x->is) {
    case MF_IS_NULL:
        fputs("null", to);
        break;
    case MF_IS_TEXT:
        (x->state == MF_RESOLVED ? mf_value_print : mf_text_print)(x->text, to);
        break;
    case MF_IS_LIST:
    case MF_IS_MAP:
        putc(x->is == MF_IS_MAP ? '{' : '[', to);
        for (int i = 0; i < x->n; i++) {
            fputs(i ? ", " : "", to);
            if (x->name) {
                mf_text_print(x->name[i], to);
                fputs(": ", to);
            }
            mf_item_print(x->child[i], to);
        }
        putc(x->is == MF_IS_MAP ? '}' : ']', to);
        break;
    default:
        print_plain(x, to);
    }
}
