#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "conf/compose.h"
#include "conf/conf_priv.h"

enum { JOBS_MAX = 100000 };

struct loader {
    const struct mf_sources *from;
    struct mf_folders folders;
    struct mf_options_chosen chosen;
    int n;
    struct mf_word *word; /* from->word, parsed */
    bool *is_option;      /* the word chooses an option of a group */
};

static int add_folders(struct loader *l, struct mf_err *err)
{
    const struct mf_sources *s = l->from;
    struct stat st;
    if (s->dir && (stat(s->dir, &st) < 0 || !S_ISDIR(st.st_mode)))
        return mf_err_set(err, MF_EUSAGE, "--config-dir %.256s is not a folder", s->dir);
    mf_folders_add(&l->folders, s->dir ? s->dir : "configs", strlen(s->dir ? s->dir : "configs"));
    for (int i = 0; i < s->n_files; i++) {
        const char *slash = strrchr(s->file[i], '/');
        mf_folders_add(&l->folders, slash ? s->file[i] : ".", slash ? (size_t)(slash - s->file[i]) : 1);
    }
    if (s->installed)
        mf_folders_add(&l->folders, s->installed, strlen(s->installed));
    return 0;
}

/* policy=x, +policy=x and ~policy, where policy is a folder of options. */
static void choose(struct loader *l, int i)
{
    const struct mf_word *w = &l->word[i];
    const struct mf_item *v = w->n ? w->choice[0].value : NULL;
    const int n = v && v->is == MF_IS_LIST ? v->n : 1;
    if (w->act == MF_OVERRIDE_FORCE || (v && v->is == MF_IS_MAP) || memchr(w->key, '.', strcspn(w->key, "@")) ||
        !mf_folders_have_group(&l->folders, w->key))
        return;
    l->is_option[i] = true;
    for (int k = 0; k < n; k++) {
        const struct mf_item *x = v && v->is == MF_IS_LIST ? v->child[k] : v;
        mf_options_choose(&l->chosen, w->key, x && x->is != MF_IS_NULL && w->act != MF_OVERRIDE_DELETE ? x->text : NULL,
                          NULL);
        l->chosen.of[l->chosen.n - 1].appended = w->act == MF_OVERRIDE_ADD;
    }
}

static bool was_used(const struct loader *l, const char *group)
{
    for (int i = 0; i < l->chosen.n; i++)
        if (!strcmp(l->chosen.of[i].group, group) && l->chosen.of[i].used)
            return true;
    return false;
}

/* ---- a word that sets a key ---- */

/* Is there a value in the place of this group, as in policy: PPO? */
static bool is_value(const struct mf_item *root, const char *group)
{
    const struct mf_item *there = mf_item_find(root, group);
    return there && (there->is != MF_IS_MAP || mf_item_brief(there));
}

static int check_place(const struct mf_item *root, const struct mf_word *w, struct mf_err *err)
{
    const struct mf_item *there = mf_item_at(root, w->key);
    const bool known = mf_key_find(w->key) >= 0;
    char nearest[MF_NEAREST];
    for (const char *dot = strchr(w->key, '.'); dot; dot = strchr(dot + 1, '.')) {
        char before[300];
        snprintf(before, sizeof before, "%.*s", (int)(dot - w->key), w->key);
        const struct mf_item *x = mf_item_at(root, before);
        if (x && x->is == MF_IS_LIST)
            return mf_err_set(err, MF_EUSAGE, "%.128s: '%.128s' is a list; give all of it, %.128s=[..]", w->key, before,
                              before);
    }
    if (w->act == MF_OVERRIDE_ADD && there)
        return mf_err_set(err, MF_EUSAGE, "+%.128s: the key is already set%s%.200s; %.128s=VALUE changes it", w->key,
                          there->where ? ", at " : "", there->where ? there->where : "", w->key);
    if (w->act == MF_OVERRIDE_DELETE && !there)
        return mf_err_set(err, MF_EUSAGE, "~%.128s: no file sets it", w->key);
    if (w->act != MF_OVERRIDE_SET || there || known || !strncmp(w->key, "hydra.", 6))
        return 0;
    if (mf_key_is_group(w->key))
        return mf_err_set(
            err, MF_EUSAGE,
            "'%.100s' is a group of keys: give %.100s.KEY=VALUE; no folder %.100s of options is in %.100s", w->key,
            w->key, w->key, "the configurations");
    mf_key_nearest(w->key, nearest, sizeof nearest);
    return mf_err_set(err, MF_EUSAGE, "unknown key '%.128s', nearest is %s", w->key, nearest);
}

static int apply(struct mf_item *root, const struct mf_word *w, int reading, struct mf_err *err)
{
    int rc = check_place(root, w, err);
    if (rc)
        return rc;
    struct mf_item *there = mf_item_at(root, w->key);
    const struct mf_item *v = w->n ? w->choice[0].value : NULL;
    if (w->act == MF_OVERRIDE_DELETE) {
        if (v && (!v->text || !there->text || strcmp(v->text, there->text) != 0))
            return mf_err_set(err, MF_EUSAGE, "~%.128s=%.100s: the key has another value", w->key, w->choice[0].text);
        mf_item_remove(there);
        return 0;
    }
    struct mf_item *box = mf_item_map();
    mf_item_put_at(box, w->key, mf_item_copy(v));
    mf_item_stamp(box, reading);
    mf_key_spell_out(box);
    mf_item_merge(root, box);
    return 0;
}

/* ---- files, then words ---- */

static int compose_files(struct loader *l, struct mf_item *root, int *reading, struct mf_err *err)
{
    const struct mf_sources *s = l->from;
    int rc = 0;
    for (int i = 0; i < s->n_files && rc == 0; i++)
        rc = mf_compose(root, reading, &l->folders, s->file[i], true, &l->chosen, err);
    if (rc == 0 && (s->name || !s->n_files))
        rc = mf_compose(root, reading, &l->folders, s->name, false, &l->chosen, err);
    return rc;
}

/* The error for a comma outside quotes and brackets. */
static int several(const struct mf_word *w, const char *text, struct mf_err *err)
{
    const int i = mf_key_find(w->key);
    const bool list = i < 0 || mf_keys[i].type == MF_INTS || mf_keys[i].type == MF_NAMES;
    mf_err_set(err, MF_EUSAGE, "%.128s: several values make a sweep, which needs mf-conf -m or pipelines/sweep%s", text,
               list ? "; a list is written [a,b]" : "");
    return mf_word_hint(w->key, strchr(text, '=') + 1, err);
}

static int load(struct loader *l, struct mf_conf *c, struct mf_err *err)
{
    struct mf_item *root = mf_item_map();
    int rc = add_folders(l, err);
    if (l->from->name) {
        const char *slash = strrchr(l->from->name, '/'), *base = slash ? slash + 1 : l->from->name;
        struct mf_item *name = mf_item_scalar(base, true, MF_YAML);
        name->where = mf_xstrdup("--config-name");
        mf_item_put_at(root, "run.name", name);
    }
    for (int i = 0; i < l->n && rc == 0; i++) {
        if (l->word[i].n > 1 || l->word[i].glob)
            rc = several(&l->word[i], l->from->word[i], err);
        else
            choose(l, i);
    }
    if (rc == 0)
        rc = compose_files(l, root, &c->readings, err);
    for (int i = 0; i < l->n && rc == 0; i++) {
        struct mf_word *w = &l->word[i];
        if (l->is_option[i] && (was_used(l, w->key) || w->act == MF_OVERRIDE_ADD))
            continue;
        if (l->is_option[i] && w->act == MF_OVERRIDE_SET && mf_key_find(w->key) < 0 && !is_value(root, w->key))
            return mf_item_free(root),
                   mf_err_set(err, MF_EUSAGE, "%.128s: no defaults list has the group %.64s; +%.128s adds it",
                              l->from->word[i], w->key, l->from->word[i]);
        rc = apply(root, w, ++c->readings, err);
    }
    if (rc == 0)
        return mf_conf_take(c, root, err);
    mf_item_free(root);
    return rc;
}

static int open_loader(struct loader *l, const struct mf_sources *from, struct mf_err *err)
{
    int rc = 0;
    *l = (struct loader){.from = from, .n = from->n_words};
    l->word = mf_xcalloc((size_t)l->n + 1, sizeof *l->word);
    l->is_option = mf_xcalloc((size_t)l->n + 1, sizeof *l->is_option);
    for (int i = 0; i < l->n && rc == 0; i++)
        rc = mf_word_read(&l->word[i], from->word[i], err);
    return rc;
}

static void close_loader(struct loader *l)
{
    for (int i = 0; i < l->n; i++)
        mf_word_release(&l->word[i]);
    free(l->word);
    free(l->is_option);
    mf_options_forget(&l->chosen);
    mf_folders_release(&l->folders);
}

int mf_conf_load(struct mf_conf *c, const struct mf_sources *from, struct mf_err *err)
{
    struct loader l;
    int rc = open_loader(&l, from, err);
    rc = rc ? rc : load(&l, c, err);
    close_loader(&l);
    return rc;
}

int mf_conf_recorded(struct mf_conf *c, const char *run, const char *program, struct mf_err *err)
{
    char name[128], package[8];
    struct mf_item *root;
    snprintf(name, sizeof name, "configs/%.100s.yaml", program);
    FILE *f = mf_file_read_in(run, name, err);
    int rc = f ? mf_yaml_take(&root, f, name, package, sizeof package, err) : err->code;
    if (f)
        fclose(f);
    if (rc)
        return mf_err_at(err, "%.200s", run);
    if (root->n == 0) {
        mf_item_free(root);
        return mf_err_set(err, MF_EFORMAT, "%.200s/%s is empty", run, name);
    }
    c->is_record = true;
    mf_item_stamp(root, ++c->readings);
    mf_key_spell_out(root);
    return mf_conf_take(c, root, err);
}

/* ---- sweeps ---- */

static char *job_word(const struct mf_word *w, const char *text)
{
    static const char *const sign[] = {"", "+", "++", "~"};
    const size_t size = strlen(w->key) + strlen(text) + 4;
    char *s = mf_xcalloc(size, 1);
    snprintf(s, size, "%s%s%s%s", sign[w->act], w->key, w->n ? "=" : "", text);
    return s;
}

static bool matches(const struct mf_item *patterns, const char *name)
{
    const bool list = patterns && patterns->is == MF_IS_LIST;
    for (int i = 0; patterns && i < (list ? patterns->n : 1); i++) {
        const char *pattern = list ? patterns->child[i]->text : patterns->text;
        if (pattern && fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

/* GROUP=glob(a*,exclude=b*): the options of the group that match. */
static int find_options(struct loader *l, struct mf_word *w, struct mf_err *err)
{
    char *name[MF_OPTIONS_MAX], group[128];
    snprintf(group, sizeof group, "%.*s", (int)strcspn(w->key, "@"), w->key);
    const int n = mf_folders_options(&l->folders, group, name);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        if (rc == 0 && matches(mf_item_find(w->glob, "include"), name[i]) &&
            !matches(mf_item_find(w->glob, "exclude"), name[i]))
            rc = mf_word_choose(w, name[i], err);
        free(name[i]);
    }
    if (rc == 0 && w->n == 0)
        rc = mf_err_set(err, MF_EUSAGE, "%.128s=glob(..): no option of a group %.64s matches", w->key, group);
    return rc;
}

/* Prints one job: each word with its value number turn[i]. The job must compose without errors. */
static int job(const struct loader *l, const int *turn, FILE *to, struct mf_err *err)
{
    struct mf_sources from = *l->from;
    char **word = mf_xcalloc((size_t)l->n + 1, sizeof *word);
    struct mf_conf *c = mf_conf_new();
    for (int i = 0; i < l->n; i++)
        word[i] = job_word(&l->word[i], l->word[i].n ? l->word[i].choice[turn[i]].text : "");
    from.word = (const char *const *)word;
    int rc = mf_conf_load(c, &from, err);
    for (int i = 0; i < l->n && rc == 0; i++) {
        if (strchr(word[i], '\n'))
            rc = mf_err_set(err, MF_EUSAGE, "%.128s: a value cannot contain a line break, since a job is one line",
                            word[i]);
        fputs(i ? " " : "", to);
        mf_shell_print(word[i], to);
    }
    if (rc == 0)
        putc('\n', to);
    for (int i = 0; i < l->n; i++)
        free(word[i]);
    free(word);
    mf_conf_free(c);
    return rc;
}

bool mf_conf_is_word(const struct mf_conf *c, const char *key)
{
    const char *where = c->slot[mf_key_find(key)].where;
    return where && !strcmp(where, "word");
}

int mf_conf_sweep(const struct mf_sources *from, FILE *to, struct mf_err *err)
{
    struct loader l;
    int *turn = mf_xcalloc((size_t)from->n_words + 1, sizeof *turn), rc = open_loader(&l, from, err);
    char *lines = NULL;
    size_t size;
    FILE *text = open_memstream(&lines, &size);
    double jobs = 1;
    rc = rc ? rc : add_folders(&l, err);
    for (int i = 0; i < l.n && rc == 0; i++)
        rc = l.word[i].glob ? find_options(&l, &l.word[i], err) : 0;
    for (int i = 0; i < l.n && rc == 0; i++)
        jobs *= l.word[i].n > 1 ? l.word[i].n : 1;
    if (rc == 0 && jobs > JOBS_MAX)
        rc = mf_err_set(err, MF_EUSAGE, "the sweep has %.0f jobs, more than the maximum of %d", jobs, JOBS_MAX);
    for (int i = 0; rc == 0 && i >= 0;) {
        rc = job(&l, turn, text, err);
        for (i = l.n - 1; i >= 0 && ++turn[i] >= l.word[i].n; i--) /* the last word changes fastest */
            turn[i] = 0;
    }
    fclose(text);
    if (rc == 0) /* all jobs are valid */
        fputs(lines, to);
    free(lines);
    free(turn);
    close_loader(&l);
    return rc;
}
