#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/conf_priv.h"

enum { NAME_MAX_ = 128, HELP_COLUMNS = 100 };

struct slot {
    union mf_typed v;
    char *text;  /* v as YAML writes it; NULL: null */
    char *where; /* "FILE:LINE" or "word"; NULL: the default */
    int reading; /* the number of that file */
};

struct mf_conf {
    int n, readings;
    struct slot *slot; /* one for each of mf_keys */
};

/* Other names of the same thing, from the published commands and files. */
static const char *const alias[][2] = {
    {"env", "env.name"},
    {"task.dataset_path", "clone.dataset"},
    {"task.env_runner.max_steps", "env.max_steps"},
    {"task.env_runner.num_episodes", "eval.num_episodes"},
    {"task.env_runner.env_meta.env_name", "env.name"},
    {"task.env_runner.env_config.env_name", "env.name"},
};

static int find(const char *name)
{
    for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
        if (!strcmp(name, alias[i][0]))
            name = alias[i][1];
    for (int i = 0; mf_keys[i].name; i++)
        if (!strcmp(name, mf_keys[i].name))
            return i;
    return -1;
}

bool mf_conf_is_group(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; mf_keys[i].name; i++)
        if (!strncmp(mf_keys[i].name, name, n) && mf_keys[i].name[n] == '.')
            return true;
    return false;
}

/* Levenshtein's distance, over at most NAME_MAX_ characters. */
static int distance(const char *a, const char *b)
{
    int row[NAME_MAX_ + 1], n = (int)strnlen(b, NAME_MAX_);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i] && i < NAME_MAX_; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[n];
}

static const char *nearest(const char *name)
{
    const char *best = "";
    int least = 1 << 20;
    for (int i = 0; mf_keys[i].name; i++) {
        const char *dot = strchr(mf_keys[i].name, '.');
        int d = distance(name, mf_keys[i].name), bare = dot ? 1 + distance(name, dot + 1) : d;
        d = bare < d ? bare : d; /* whoever forgets the group means the key of that name */
        if (d < least)
            least = d, best = mf_keys[i].name;
    }
    return best;
}

static void slot_release(struct slot *s, const struct mf_key *key)
{
    if (key->type == MF_STR)
        free(s->v.s);
    free(s->text);
    free(s->where);
}

static const char *as_written(const struct mf_value *v)
{
    return v->list ? "[..]" : v->item[0].text;
}

int mf_conf_reading(struct mf_conf *c)
{
    return ++c->readings;
}

int mf_conf_set(struct mf_conf *c, const char *name, const struct mf_value *v, const char *where, int reading,
                struct mf_err *err)
{
    int i = find(name);
    const char *at = where ? where : "", *colon = where ? ": " : "";
    if (i < 0)
        return mf_err_set(err, MF_EUSAGE, "%s%sunknown key '%.*s', nearest is '%s'", at, colon, NAME_MAX_, name,
                          nearest(name));
    if (reading && c->slot[i].reading == reading)
        return mf_err_set(err, MF_EUSAGE, "%s: '%s' was set at %s already", at, name, c->slot[i].where);
    struct slot s = {.reading = reading};
    int rc = mf_typed_take(&s.v, &mf_keys[i], v, err);
    if (rc)
        return mf_err_at(err, "%s%s%s=%.128s", at, colon, name, as_written(v));
    s.text = mf_typed_text(&s.v, &mf_keys[i]);
    s.where = mf_xstrdup(where ? where : "word");
    slot_release(&c->slot[i], &mf_keys[i]);
    c->slot[i] = s;
    return 0;
}

struct mf_conf *mf_conf_new(void)
{
    struct mf_conf *c = mf_xcalloc(1, sizeof *c);
    while (mf_keys[c->n].name)
        c->n++;
    c->slot = mf_xcalloc((size_t)c->n, sizeof *c->slot);
    for (int i = 0; i < c->n; i++) {
        const struct mf_key *key = &mf_keys[i];
        struct mf_value v = {0};
        struct mf_err err;
        int rc = key->type == MF_INTS || key->type == MF_NAMES
                     ? mf_value_word(&v, key->def, &err)
                     : mf_value_add(&v, key->def ? key->def : "", false, MF_YAML, &err);
        if (rc || mf_typed_take(&c->slot[i].v, key, &v, &err))
            abort(); /* a default that its own row refuses is a bug of the table */
        c->slot[i].text = mf_typed_text(&c->slot[i].v, key);
        mf_value_release(&v);
    }
    return c;
}

void mf_conf_free(struct mf_conf *c)
{
    for (int i = 0; c && i < c->n; i++)
        slot_release(&c->slot[i], &mf_keys[i]);
    if (c)
        free(c->slot);
    free(c);
}

int mf_conf_word(struct mf_conf *c, const char *word, struct mf_err *err)
{
    const char *equals = strchr(word, '=');
    char name[NAME_MAX_ + 1];
    if (!equals || equals == word)
        return mf_err_set(err, MF_EUSAGE, "'%.128s' is no key=value", word);
    if (equals - word > NAME_MAX_)
        return mf_err_set(err, MF_EUSAGE, "no key is as long as '%.64s...'", word);
    memcpy(name, word, (size_t)(equals - word));
    name[equals - word] = '\0';
    struct mf_value v = {0};
    int rc = mf_value_word(&v, equals + 1, err);
    rc = rc ? mf_err_at(err, "%.256s", word) : mf_conf_set(c, name, &v, NULL, 0, err);
    mf_value_release(&v);
    return rc;
}

int mf_conf_bind(const struct mf_conf *c, const struct mf_bind *table, void *self, struct mf_err *err)
{
    for (; table && table->key; table++) {
        int i = find(table->key);
        if (i < 0)
            return mf_err_set(err, MF_EUSAGE, "this program binds '%s', which is no key", table->key);
        const union mf_typed *v = &c->slot[i].v;
        void *to = (char *)self + table->at;
        switch (mf_keys[i].type) {
        case MF_BOOL:
            *(bool *)to = v->b;
            break;
        case MF_INT:
            *(int64_t *)to = v->i;
            break;
        case MF_FLOAT:
            *(double *)to = v->f;
            break;
        case MF_STR:
            *(const char **)to = v->s;
            break;
        case MF_CHOICE:
            *(int *)to = v->choice;
            break;
        case MF_INTS:
            *(struct mf_ints *)to = v->ints;
            break;
        case MF_NAMES:
            *(struct mf_names *)to = v->names;
            break;
        }
    }
    return 0;
}

const char *mf_conf_text(const struct mf_conf *c, const char *key)
{
    int i = find(key);
    return i < 0 ? NULL : c->slot[i].text;
}

bool mf_conf_was_set(const struct mf_conf *c, const char *key)
{
    int i = find(key);
    return i >= 0 && c->slot[i].where;
}

static void put_text(const char *s, FILE *to)
{
    if (mf_scalar_is_plain(s)) {
        fputs(s, to);
        return;
    }
    putc('"', to);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (iscntrl((unsigned char)*s))
            fprintf(to, "\\x%02X", (unsigned char)*s);
        else
            putc(*s, to);
    }
    putc('"', to);
}

void mf_conf_print(const struct mf_conf *c, FILE *to)
{
    const char *group = "";
    for (int i = 0; i < c->n; i++) {
        const char *name = mf_keys[i].name, *dot = strchr(name, '.');
        size_t n = dot ? (size_t)(dot - name) : 0;
        if (dot && (strncmp(group, name, n) || group[n] != '.'))
            fprintf(to, "%.*s:\n", (int)n, name);
        group = dot ? name : "";
        fprintf(to, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : name);
        if (!c->slot[i].text)
            fputs("null", to);
        else if (mf_keys[i].type == MF_STR)
            put_text(c->slot[i].text, to);
        else
            fputs(c->slot[i].text, to);
        putc('\n', to);
    }
}

static void put_spaces(int n, FILE *to)
{
    fprintf(to, "%*s", n, "");
}

/* `text` from column `indent` on, broken at spaces before column HELP_COLUMNS. */
static void put_wrapped(const char *text, int indent, FILE *to)
{
    for (int room = HELP_COLUMNS - indent;;) {
        int n = (int)strlen(text), cut = n;
        if (n > room)
            for (cut = room; cut > 0 && text[cut] != ' ';)
                cut--;
        fprintf(to, "%.*s\n", cut ? cut : n, text);
        text += cut ? cut : n;
        if (!*text++)
            return;
        put_spaces(indent, to);
    }
}

static int pair_width(const struct mf_key *key)
{
    return (int)(strlen(key->name) + 1 + strlen(key->def ? key->def : "null"));
}

void mf_conf_help(const struct mf_bind *table, FILE *to)
{
    int wide = 0;
    for (const struct mf_bind *b = table; b->key; b++)
        wide = pair_width(&mf_keys[find(b->key)]) > wide ? pair_width(&mf_keys[find(b->key)]) : wide;
    for (const struct mf_bind *b = table; b->key; b++) {
        const struct mf_key *key = &mf_keys[find(b->key)];
        const bool choice = key->type == MF_CHOICE;
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s%s", choice ? key->words : "", choice ? ": " : "",
                 key->unit ? key->unit : "", key->unit ? " " : "", key->help);
        fprintf(to, "  %s=%s", key->name, key->def ? key->def : "null");
        put_spaces(wide - pair_width(key) + 2, to);
        put_wrapped(text, wide + 4, to);
    }
}
