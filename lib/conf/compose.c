#include "conf/compose.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/conf_priv.h"
#include "conf/resolve.h"

enum { DEPTH_MAX = 32, FILES_MAX = 512, NAME_BYTES = 256 };

struct fragment { /* one file's own keys, and their package */
    struct mf_item *body;
    char *package;
};

struct composer {
    struct mf_folders *folders;
    struct mf_options_chosen *chosen;
    int n, depth;
    struct fragment part[FILES_MAX]; /* the last one first */
    char *open[DEPTH_MAX];           /* the files whose defaults lead to this one */
};

/* An entry of a defaults list. */
struct entry {
    bool self, is_override, optional, is_file, packed; /* packed: it has an @package */
    char group[NAME_BYTES];                            /* "policy", an absolute path; "": the root */
    char own[NAME_BYTES];                              /* its package, relative to that of the list's file */
    char key[NAME_BYTES];                              /* of overrides of its option: group, or group@package */
    char list[NAME_BYTES];                             /* the group as the list writes it, for ${..} */
    const char *parent;                                /* the package of the list's file */
    struct mf_item *option;
};

/* ---- a defaults list ---- */

/* Hydra's own groups, such as launchers and loggers, are not loaded. */
static bool is_hydras(const struct entry *e)
{
    return !strncmp(e->group, "hydra", 5) && (!e->group[5] || e->group[5] == '/');
}

/* Hydra's rule: a package is relative to the parent's, unless _global_ is in it. */
static void join_package(char to[NAME_BYTES], const char *parent, const char *package)
{
    char both[2 * NAME_BYTES];
    snprintf(both, sizeof both, "%s%s%s", parent, *parent && *package ? "." : "", package);
    const char *global = NULL;
    for (const char *s = both; (s = strstr(s, "_global_")); s += 8)
        global = s + 8;
    snprintf(to, NAME_BYTES, "%.255s", global ? global + (*global == '.') : both);
}

static bool starts(const char **s, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*s, word, n))
        return false;
    *s += n;
    return true;
}

/* "policy", "/env@env.train", "override /policy"; of a file "env/lift@env.train", where the last name is the option. */
static void read_entry(struct entry *e, const char *text, const char *group, const char *parent)
{
    char package[NAME_BYTES];
    for (bool more = true; more;) {
        more = starts(&text, "optional ");
        e->optional |= more;
        if (!more && (more = starts(&text, "override ")))
            e->is_override = true;
    }
    const size_t n = strcspn(text, "@");
    const bool absolute = *text == '/';
    e->parent = parent;
    e->packed = text[n] == '@';
    snprintf(e->list, sizeof e->list, "%.*s", (int)n - absolute, text + absolute);
    if (e->is_file)
        *(strrchr(e->list, '/') ? strrchr(e->list, '/') : e->list) = '\0';
    snprintf(e->group, sizeof e->group, "%.120s%s%.120s", absolute ? "" : group,
             !absolute && *group && *e->list ? "/" : "", e->list);
    snprintf(e->own, sizeof e->own, "%.255s", e->packed ? text + n + 1 : e->list);
    if (!strcmp(e->own, "_group_"))
        snprintf(e->own, sizeof e->own, "%s", e->list);
    else if (!strcmp(e->own, "_here_"))
        *e->own = '\0';
    for (char *s = e->own; *s; s++)
        *s = *s == '/' ? '.' : *s;
    join_package(package, parent, e->own);
    snprintf(e->key, sizeof e->key, "%.120s%s%.120s", e->group, e->packed ? "@" : "", e->packed ? package : "");
}

static int wrong(const struct mf_item *x, struct mf_err *err, const char *what)
{
    return mf_err_set(err, MF_EUSAGE, "%.300s: %s", x->where, what);
}

static int read_list(struct entry *e, const struct mf_item *list, const char *group, const char *package,
                     struct mf_err *err)
{
    for (int i = 0; i < list->n; i++, e++) {
        struct mf_item *x = list->child[i];
        const bool is_map = x->is == MF_IS_MAP && x->n == 1 && strlen(x->name[0]) < 200;
        if (!is_map && (x->is != MF_IS_TEXT || strlen(x->text) >= 200))
            return wrong(x, err, "an entry of defaults must be a file name, or GROUP: OPTION");
        e->self = !is_map && !strcmp(x->text, "_self_");
        e->is_file = !is_map && !e->self;
        e->option = is_map ? x->child[0] : x;
        if (!e->self)
            read_entry(e, is_map ? x->name[0] : x->text, group, package);
    }
    return 0;
}

/* Notes this list's `override` entries. Words, and the files that include this one, take precedence. */
static void note_overrides(struct composer *c, const struct entry *e, int n)
{
    for (; n-- > 0; e++) {
        if (!e->is_override || is_hydras(e) || mf_options_find(c->chosen, e->key))
            continue;
        mf_options_choose(c->chosen, e->key, e->option->is == MF_IS_NULL ? NULL : e->option->text, e->option->where);
        c->chosen->of[c->chosen->n - 1].is_override = true;
    }
}

/* Resolves ${group} in an option: to the chosen option of the group, else to its option in the same list. */
static int fill_option(struct composer *c, const struct entry *all, int n, const char *text, const char *where,
                       char to[NAME_BYTES], struct mf_err *err)
{
    struct mf_item *root = mf_item_map(), *x = mf_item_scalar(text, true, MF_YAML);
    struct mf_resolver r = {.root = root};
    for (int i = 0; i < n; i++)
        if (!all[i].self && all[i].option->text && *all[i].list && !strstr(all[i].option->text, "${"))
            mf_item_put(root, all[i].list, mf_item_scalar(all[i].option->text, true, MF_YAML));
    for (int i = 0; i < c->chosen->n; i++)
        if (c->chosen->of[i].option)
            mf_item_put(root, c->chosen->of[i].group, mf_item_scalar(c->chosen->of[i].option, true, MF_YAML));
    mf_item_put(root, "defaults", x);
    int rc = mf_resolve(&r, x, err);
    if (rc)
        mf_err_at(err, "%.256s", where ? where : "a word");
    else
        snprintf(to, NAME_BYTES, "%s", x->text ? x->text : "");
    mf_item_free(root);
    return rc;
}

static int visit(struct composer *c, const char *path, const struct entry *as, struct mf_err *err);

/* Visits an option of the entry's group. */
static int visit_option(struct composer *c, const struct entry *all, int n, const struct entry *e, const char *option,
                        const char *where, struct mf_err *err)
{
    char name[NAME_BYTES], full[2 * NAME_BYTES], path[MF_PATH_BYTES], options[400];
    struct entry as = *e;
    int rc = fill_option(c, all, n, option, where, name, err);
    if (rc)
        return rc;
    if (e->is_file) {
        name[strcspn(name, "@")] = '\0';
        if (strrchr(name, '/'))
            memmove(name, strrchr(name, '/') + 1, strlen(strrchr(name, '/')));
    }
    char *end = strstr(name, ".yaml"), *at = strstr(as.own, "_name_");
    if (end && !end[5])
        *end = '\0';
    if (at && !at[6])
        snprintf(at, sizeof as.own - (size_t)(at - as.own), "%s", name);
    snprintf(full, sizeof full, "%s%s%s", e->group, *e->group ? "/" : "", name);
    if (mf_folders_find(c->folders, full, ".yaml", S_IFREG, path))
        return visit(c, path, &as, err);
    if (e->optional)
        return 0;
    mf_folders_list(c->folders, e->group, options, sizeof options);
    return mf_err_set(err, MF_EUSAGE, "%.150s%sno %.100s.yaml in %.60s; available: %s", where ? where : "",
                      where ? ": " : "", full, c->folders->n ? c->folders->path[0] : "no folder",
                      *options ? options : "nothing");
}

static int visit_entry(struct composer *c, const struct entry *all, int n, const struct entry *e, struct mf_err *err)
{
    if (e->is_override || is_hydras(e))
        return 0;
    struct mf_option *choice = e->is_file ? NULL : mf_options_find(c->chosen, e->key);
    if (choice) {
        choice->used = true;
        return choice->option ? visit_option(c, all, n, e, choice->option, choice->where, err) : 0;
    }
    const struct mf_item *o = e->option;
    int rc = 0;
    if (o->is == MF_IS_TEXT && !strcmp(o->text, "???")) {
        char options[200];
        mf_folders_list(c->folders, e->group, options, sizeof options);
        return mf_err_set(err, MF_EUSAGE, "%.200s: choose %.100s=OPTION, one of: %s", o->where, e->key, options);
    }
    if (o->is == MF_IS_LIST) {
        for (int i = o->n; i-- > 0 && rc == 0;)
            rc = o->child[i]->text ? visit_option(c, all, n, e, o->child[i]->text, o->child[i]->where, err)
                                   : wrong(o, err, "an option must be a file name");
        return rc;
    }
    if (o->is == MF_IS_MAP)
        return wrong(o, err, "an option must be a file name");
    return o->is == MF_IS_NULL ? 0 : visit_option(c, all, n, e, o->text, o->where, err);
}

/* ---- files ---- */

static int push(struct composer *c, struct mf_item *body, const char *package, struct mf_err *err)
{
    if (c->n == FILES_MAX)
        return mf_err_set(err, MF_EUSAGE, "the configuration includes more than %d files", FILES_MAX);
    c->part[c->n++] = (struct fragment){mf_item_copy(body), mf_xstrdup(package)};
    return 0;
}

/* +group=option: as the last entries of the first file. */
static int appended(struct composer *c, struct mf_err *err)
{
    int rc = 0;
    for (int i = c->chosen->n; i-- > 0 && rc == 0;) {
        struct mf_option *o = &c->chosen->of[i];
        struct entry e = {0};
        if (!o->appended || o->used)
            continue;
        o->used = true;
        read_entry(&e, o->group, "", "");
        rc = visit_option(c, NULL, 0, &e, o->option, NULL, err);
    }
    return rc;
}

/* Visits the list in reverse, so that a later entry can override the options of earlier ones. */
static int walk(struct composer *c, struct mf_item *body, const struct mf_item *list, const char *group,
                const char *package, struct mf_err *err)
{
    const int listed = list ? list->n : 0;
    struct entry *all = mf_xcalloc((size_t)listed + 1, sizeof *all);
    bool self = false;
    int rc = list ? read_list(all, list, group, package, err) : 0;
    for (int i = 0; i < listed; i++)
        self |= all[i].self;
    all[listed].self = true; /* the file itself: last, unless the list has _self_ */
    const int n = listed + !self;
    if (rc == 0)
        note_overrides(c, all, listed);
    if (rc == 0 && c->depth == 1)
        rc = appended(c, err);
    for (int i = n; i-- > 0 && rc == 0;)
        rc = all[i].self ? push(c, body, package, err) : visit_entry(c, all, listed, &all[i], err);
    free(all);
    return rc;
}

/* hydra.searchpath: [file://DIR] of the first file. Other URLs are ignored. */
static int search_too(struct composer *c, const struct mf_item *body, struct mf_err *err)
{
    const struct mf_item *list = mf_item_at(body, "hydra.searchpath");
    for (int i = 0; list && list->is == MF_IS_LIST && i < list->n; i++) {
        char path[NAME_BYTES];
        const char *text = list->child[i]->text;
        if (!text || strncmp(text, "file://", 7))
            continue;
        int rc = fill_option(c, NULL, 0, text + 7, list->child[i]->where, path, err);
        if (rc)
            return rc;
        mf_folders_add(c->folders, path, strlen(path));
    }
    return 0;
}

/* Visits the file at `path`. */
static int visit(struct composer *c, const char *path, const struct entry *as, struct mf_err *err)
{
    struct mf_item *body, *list;
    char header[NAME_BYTES], package[NAME_BYTES];
    for (int i = 0; i < c->depth; i++)
        if (!strcmp(c->open[i], path))
            return mf_err_set(err, MF_EUSAGE, "%.200s includes itself in its defaults, through %.200s", path,
                              c->open[c->depth - 1]);
    if (c->depth == DEPTH_MAX)
        return mf_err_set(err, MF_EUSAGE, "%.200s: defaults are nested more than %d deep", path, DEPTH_MAX);
    int rc = mf_yaml_read(&body, path, header, sizeof header, err);
    if (rc)
        return rc;
    join_package(package, as->parent, !*header || as->packed || !strcmp(header, "_group_") ? as->own : header);
    c->open[c->depth++] = mf_xstrdup(path);
    if ((list = mf_item_find(body, "defaults"))) {
        struct mf_item *kept = mf_item_copy(list);
        mf_item_remove(list);
        list = kept;
    }
    if (list && list->is != MF_IS_LIST && list->is != MF_IS_NULL)
        rc = wrong(list, err, "defaults must be a list");
    if (rc == 0 && c->depth == 1)
        rc = search_too(c, body, err);
    if (rc == 0)
        rc = walk(c, body, list, as->group, package, err);
    free(c->open[--c->depth]);
    mf_item_free(list);
    mf_item_free(body);
    return rc;
}

static int unused(const struct composer *c, struct mf_err *err)
{
    for (int i = 0; i < c->chosen->n; i++) {
        const struct mf_option *o = &c->chosen->of[i];
        if (o->is_override && !o->used)
            return mf_err_set(err, MF_EUSAGE, "%.300s: override %.100s: no defaults list has that group", o->where,
                              o->group);
    }
    return 0;
}

int mf_compose(struct mf_item *root, int *reading, struct mf_folders *folders, const char *name, bool is_path,
               struct mf_options_chosen *chosen, struct mf_err *err)
{
    struct composer *c = mf_xcalloc(1, sizeof *c);
    struct entry primary = {.is_file = true, .parent = ""};
    struct mf_item option = {.is = MF_IS_TEXT, .text = (char *)name};
    c->folders = folders;
    c->chosen = chosen;
    primary.option = &option;
    int rc;
    if (!name) {
        rc = appended(c, err);
    } else if (is_path) {
        rc = visit(c, name, &primary, err);
    } else {
        const char *slash = strrchr(name, '/');
        snprintf(primary.group, sizeof primary.group, "%.*s", slash ? (int)(slash - name) : 0, name);
        rc = visit_option(c, NULL, 0, &primary, name, NULL, err);
    }
    if (rc == 0)
        rc = unused(c, err);
    for (int i = c->n; i-- > 0;) { /* from the last one on: the lists were visited in reverse */
        struct fragment *p = &c->part[i];
        if (rc == 0) {
            mf_item_stamp(p->body, ++*reading);
            struct mf_item *boxed = mf_item_map();
            mf_item_put_at(boxed, p->package, p->body);
            mf_key_spell_out(boxed);
            mf_item_merge(root, boxed);
        } else {
            mf_item_free(p->body);
        }
        free(p->package);
    }
    free(c);
    return rc;
}
