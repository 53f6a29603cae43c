#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/conf_priv.h"
#include "conf/parse.h"
#include "conf/resolve.h"

enum { PATH_BYTES = 512 };

static void slot_release(struct mf_slot *s, const struct mf_key *key)
{
    if (key->type == MF_STR)
        free(s->v.s);
    free(s->text);
    free(s->where);
}

struct mf_conf *mf_conf_new(void)
{
    struct mf_conf *c = mf_xcalloc(1, sizeof *c);
    while (mf_keys[c->n].name)
        c->n++;
    c->slot = mf_xcalloc((size_t)c->n, sizeof *c->slot);
    for (int i = 0; i < c->n; i++) {
        struct mf_item *v = NULL;
        struct mf_err err;
        if (mf_key_default(mf_keys[i].name, &v) || mf_typed_take(&c->slot[i].v, &mf_keys[i], v, &err))
            abort(); /* the default of a row is out of its range: a bug of the table */
        c->slot[i].text = mf_typed_text(&c->slot[i].v, &mf_keys[i]);
        mf_item_free(v);
    }
    return c;
}

void mf_conf_free(struct mf_conf *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n; i++)
        slot_release(&c->slot[i], &mf_keys[i]);
    mf_item_free(c->rest);
    free(c->slot);
    free(c);
}

/* ---- from the composed tree to the keys ---- */

struct binder {
    struct mf_conf *conf;
    struct mf_resolver resolver;
    bool keep;   /* conf.unknown=keep */
    int unknown; /* unknown keys in files */
};

static const char *as_written(const struct mf_item *v)
{
    return v->is == MF_IS_LIST ? "[..]" : v->is == MF_IS_MAP ? "{..}" : v->text;
}

/* The value of a reference, converted to the key's type: a text from the environment may be a number, and a number in a
 * name becomes a text. NULL: it has the type. */
static struct mf_item *converted(const struct mf_item *v, enum mf_type type)
{
    const bool text = type == MF_STR || type == MF_CHOICE;
    if (v->state != MF_RESOLVED || v->is == MF_IS_NULL || v->n || text == (v->is == MF_IS_TEXT))
        return NULL;
    char *as = mf_item_str(v);
    struct mf_item *x = mf_item_scalar(as, text, MF_HYDRA);
    free(as);
    return x;
}

/* Of two names for one key, the later one wins. Two in one file are an error. */
static int set(struct mf_conf *c, int i, const struct mf_item *v, const char *name, struct mf_err *err)
{
    const char *at = v->where ? v->where : "", *colon = v->where ? ": " : "";
    struct mf_slot *old = &c->slot[i], s = {.reading = v->reading};
    if (old->where && old->reading > v->reading)
        return 0;
    if (old->where && old->reading == v->reading)
        return mf_err_set(err, MF_EUSAGE, "%.150s: '%.100s' was already set at %.150s", at, name, old->where);
    s.missing = v->is == MF_IS_TEXT && !strcmp(v->text, "???");
    const bool kept = c->is_record && v->is == MF_IS_TEXT && strstr(v->text, "${");
    struct mf_item *as = converted(v, mf_keys[i].type);
    struct mf_err ignored;
    int rc = s.missing ? 0 : mf_typed_take(&s.v, &mf_keys[i], as ? as : v, kept ? &ignored : err);
    mf_item_free(as);
    s.missing |= rc && kept;
    if (rc && !kept)
        return mf_err_at(err, "%.200s%s%s=%.128s", at, colon, name, as_written(v));
    const bool verbatim = s.missing || (c->is_record && mf_keys[i].type == MF_STR && v->is == MF_IS_TEXT);
    s.text = verbatim ? mf_xstrdup(v->text) : mf_typed_text(&s.v, &mf_keys[i]);
    s.where = mf_xstrdup(v->where ? v->where : "word");
    slot_release(old, &mf_keys[i]);
    *old = s;
    return 0;
}

static int unknown(struct binder *b, const struct mf_item *x, const char *path, struct mf_err *err)
{
    char *to = b->conf->remark, nearest[MF_NEAREST];
    const size_t n = strlen(to), size = sizeof b->conf->remark;
    if (!x->where || !strncmp(path, "hydra.", 6))
        return 0; /* a word +KEY, or a key of Hydra */
    if (!b->keep) {
        mf_key_nearest(path, nearest, sizeof nearest);
        return mf_err_set(err, MF_EUSAGE, "%.200s: unknown key '%.100s', nearest is %s", x->where, path, nearest);
    }
    if (n + strlen(path) + 8 < size && b->unknown < 12)
        snprintf(to + n, size - n, "%s%.300s", n ? ", " : "", path);
    b->unknown++;
    return 0;
}

/* A map in the place of a group's short name, env, is the group itself. */
static int key_of(const struct mf_item *x, const char *path)
{
    return x->is == MF_IS_MAP && mf_key_is_group(path) ? -1 : mf_key_find(path);
}

/* Under an unknown key, an unresolvable reference stays as written. A cycle is always an error. */
static int resolve_kept(struct binder *b, struct mf_item *x, struct mf_err *err)
{
    int rc = mf_resolve(&b->resolver, x, err);
    for (int k = 0; k < x->n && !b->resolver.hopeless; k++)
        rc = resolve_kept(b, x->child[k], err);
    return b->resolver.hopeless ? rc : 0;
}

/* ${..} in the place of a group may resolve to a map: its entries join the group, whose own entries win. */
static void unfold(struct binder *b, struct mf_item *group)
{
    struct mf_item *x = group->is == MF_IS_MAP ? mf_item_brief(group) : NULL;
    struct mf_err err;
    if (!x || mf_resolve(&b->resolver, x, &err) || x->is != MF_IS_MAP)
        return; /* the error is reported where x is bound */
    struct mf_item *all = mf_item_copy(x);
    mf_item_remove(x);
    for (int i = 0; i < all->n; i++)
        if (!mf_item_find(group, all->name[i]))
            mf_item_put(group, all->name[i], mf_item_copy(all->child[i]));
    mf_item_free(all);
}

/* The value of a list key: resolves and converts each item. */
static int resolve_list(struct binder *b, struct mf_item *list, enum mf_type type, struct mf_err *err)
{
    int rc = 0;
    for (int k = 0; list->is == MF_IS_LIST && k < list->n && rc == 0; k++) {
        rc = mf_resolve(&b->resolver, list->child[k], err);
        struct mf_item *as = rc ? NULL : converted(list->child[k], type == MF_NAMES ? MF_STR : type);
        if (as)
            mf_item_become(list->child[k], as);
    }
    return rc;
}

/* Binds all keys in the tree below x. */
static int bind_all(struct binder *b, struct mf_item *x, struct mf_err *err)
{
    char path[PATH_BYTES];
    mf_item_path(x, path, sizeof path);
    int rc = mf_resolve(&b->resolver, x, err);
    unfold(b, x);
    const int i = key_of(x, path);
    if (rc && (i >= 0 || b->resolver.hopeless))
        return rc;
    if (i >= 0)
        return (rc = resolve_list(b, x, mf_keys[i].type, err)) ? rc : set(b->conf, i, x, path, err);
    if (x->is == MF_IS_LIST && (rc = resolve_kept(b, x, err)))
        return rc;
    if (x->is != MF_IS_MAP)
        return x->is == MF_IS_NULL && mf_key_is_group(path) ? 0 : unknown(b, x, path, err);
    for (int k = 0; k < x->n; k++)
        if ((rc = bind_all(b, x->child[k], err)))
            return rc;
    return 0;
}

/* Removes the keys from the tree, which leaves the unknown ones. Called once all keys are bound: until then references
 * may refer to them. */
static void take_keys_out(struct mf_item *x)
{
    char path[PATH_BYTES];
    for (int k = x->n; k-- > 0;) {
        struct mf_item *child = x->child[k];
        mf_item_path(child, path, sizeof path);
        if (key_of(child, path) < 0 && child->is == MF_IS_MAP)
            take_keys_out(child);
        if (key_of(child, path) >= 0 || (child->is == MF_IS_MAP && child->n == 0) ||
            (child->is == MF_IS_NULL && mf_key_is_group(path)))
            mf_item_remove(child);
    }
}

int mf_conf_take(struct mf_conf *c, struct mf_item *root, struct mf_err *err)
{
    struct binder b = {.conf = c, .resolver = {.root = root, .keeps = c->is_record}};
    const struct mf_item *mode = mf_item_at(root, "conf.unknown");
    b.keep = mode && mode->text && !strcmp(mode->text, "keep");
    int rc = bind_all(&b, root, err);
    take_keys_out(root);
    mf_item_free(c->rest);
    c->rest = root;
    const size_t n = strlen(c->remark);
    if (b.unknown)
        snprintf(c->remark + n, sizeof c->remark - n, "%s", b.unknown > 12 ? ", .." : "");
    return rc;
}

/* ---- from the keys to a stage's fields ---- */

static int missing(const char *key, const struct mf_slot *s, struct mf_err *err)
{
    return mf_err_set(err, MF_EUSAGE, "%s is mandatory (%.100s in %.200s): give %s=VALUE", key, s->text, s->where, key);
}

static size_t count_rows(const struct mf_bind *table)
{
    size_t n = 0;
    while (table && table[n].key)
        n++;
    return n;
}

struct mf_bind *mf_bind_join(const struct mf_bind *own, const struct mf_bind_table *tables)
{
    size_t n = count_rows(own), at = 0;
    for (const struct mf_bind_table *t = tables; t && t->rows; t++)
        n += count_rows(t->rows);
    struct mf_bind *all = mf_xcalloc(n + 1, sizeof *all);
    for (; own && own->key; own++)
        all[at++] = *own;
    for (const struct mf_bind_table *t = tables; t && t->rows; t++)
        for (const struct mf_bind *b = t->rows; b->key; b++)
            all[at++] = (struct mf_bind){b->key, b->at == MF_BIND_NONE ? MF_BIND_NONE : t->at + b->at};
    return all;
}

int mf_conf_bind(const struct mf_conf *c, const struct mf_bind *table, void *self, struct mf_err *err)
{
    for (; table && table->key; table++) {
        int i = mf_key_find(table->key);
        if (i < 0)
            return mf_err_set(err, MF_EUSAGE, "this program binds '%s', which is no key", table->key);
        if (c->slot[i].missing)
            return missing(table->key, &c->slot[i], err);
        if (table->at == MF_BIND_NONE)
            continue;
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

/* A resumed run may change these keys: its results do not depend on them, or they only lengthen it. */
static const char *const changeable[] = {"run.dir",
                                         "run.name",
                                         "run.resume",
                                         "run.force",
                                         "run.wait",
                                         "log.formats",
                                         "log.dir",
                                         "threads",
                                         "ranks",
                                         "ranks_timeout",
                                         "env.command", /* env.name identifies the environment */
                                         "env.address",
                                         "env.workers",
                                         "env.timeout",
                                         "env.restarts",
                                         "clone.dataset", /* the number of samples is checked instead */
                                         "clone.cache_mib",
                                         "log.progress",
                                         "policy.checkpoint",
                                         "policy.prompt_length", /* observations are compared instead */
                                         "policy.weights",
                                         "training.total_timesteps",
                                         "training.save_every",
                                         "training.save_interval",
                                         "training.keep_checkpoints",
                                         "training.log_interval",
                                         "collect.slices",
                                         "collect.required",
                                         "collect.policy_address",
                                         "collect.policy_timeout",
                                         "film.every",
                                         "film.trials"};

static bool may_change(const char *key)
{
    for (size_t i = 0; i < sizeof changeable / sizeof *changeable; i++)
        if (!strcmp(key, changeable[i]))
            return true;
    return false;
}

int mf_conf_agrees(const struct mf_conf *c, const struct mf_conf *was, const struct mf_bind *table, struct mf_err *err)
{
    char all[400] = "";
    for (; table && table->key; table++) {
        const int i = mf_key_find(table->key);
        const char *now = c->slot[i].text, *then = was->slot[i].text;
        const size_t n = strlen(all);
        if (!was->slot[i].where || may_change(table->key) || now == then || (now && then && !strcmp(now, then)))
            continue;
        snprintf(all + n, sizeof all - n, "%s%s=%.64s, which was %.64s", n ? "; " : "", table->key, now ? now : "null",
                 then ? then : "null");
    }
    return *all ? mf_err_set(err, MF_EUSAGE, "%s", all) : 0;
}

static bool is_of_a_host(const struct mf_key *key)
{
    return (key->words && !strcmp(key->words, "path")) || !strcmp(key->name, "device") ||
           !strcmp(key->name, "threads") || !strcmp(key->name, "clone.cache_mib");
}

char *mf_conf_lines(const struct mf_conf *c, const struct mf_bind *table)
{
    char *lines;
    size_t size;
    FILE *to = open_memstream(&lines, &size);
    for (; to && table->key; table++) {
        const int i = mf_key_find(table->key);
        if (!is_of_a_host(&mf_keys[i]))
            fprintf(to, "%s=%s\n", table->key, c->slot[i].text ? c->slot[i].text : "null");
    }
    return to && fclose(to) == 0 ? lines : mf_xstrdup("");
}

const char *mf_conf_text(const struct mf_conf *c, const char *key)
{
    int i = mf_key_find(key);
    return i < 0 ? NULL : c->slot[i].text;
}

const char *mf_conf_assume(struct mf_conf *c, const char *key, const char *text)
{
    struct mf_slot *s = &c->slot[mf_key_find(key)], old = *s;
    s->text = mf_xstrdup(text);
    s->v.s = mf_xstrdup(text);
    free(old.text);
    free(old.v.s);
    return s->text;
}

void mf_conf_assume_names(struct mf_conf *c, const char *key, const struct mf_names *names)
{
    const int i = mf_key_find(key);
    c->slot[i].v.names = *names;
    free(c->slot[i].text);
    c->slot[i].text = mf_typed_text(&c->slot[i].v, &mf_keys[i]);
}

void mf_conf_omit(struct mf_conf *c, const char *key)
{
    c->slot[mf_key_find(key)].omitted = true;
}

int mf_conf_prefer(struct mf_conf *c, const char *word, struct mf_err *err)
{
    const size_t n = strcspn(word, "=");
    char *key = mf_xstrdup(word);
    struct mf_item *v = NULL;
    key[n] = 0;
    const int i = mf_key_find(key);
    int rc = i < 0 || !word[n] ? mf_err_set(err, MF_EUSAGE, "'%.100s' is not key=value of a known key", word) : 0;
    struct mf_slot s = {.text = NULL};
    if (rc == 0 && !c->slot[i].where && (rc = mf_word_value(&v, word + n + 1, err)) == 0 &&
        (rc = mf_typed_take(&s.v, &mf_keys[i], v, err)) == 0) {
        s.text = mf_typed_text(&s.v, &mf_keys[i]);
        slot_release(&c->slot[i], &mf_keys[i]);
        c->slot[i] = s;
    }
    mf_item_free(v);
    free(key);
    return rc ? mf_err_at(err, "%.100s", word) : 0;
}

bool mf_conf_has(const char *key)
{
    return mf_key_find(key) >= 0;
}

bool mf_conf_was_set(const struct mf_conf *c, const char *key)
{
    int i = mf_key_find(key);
    return i >= 0 && c->slot[i].where;
}

const char *mf_conf_remark(const struct mf_conf *c)
{
    return c->remark;
}
