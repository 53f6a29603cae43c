#include "conf/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/conf_priv.h"

enum { FILE_BYTES = 1 << 20, DEPTH_MAX = 32, NAME_BYTES = 128, ANCHORS_MAX = 256 };

struct anchor {
    char *name;
    const struct mf_item *of;
};

struct reader {
    yaml_parser_t yaml;
    const char *file;
    int nodes; /* made so far: limits aliases of aliases, which grow exponentially */
    int n_anchors;
    struct anchor anchor[ANCHORS_MAX];
};

static int wrong(const struct reader *r, size_t line, struct mf_err *err, const char *what)
{
    return mf_err_set(err, MF_EUSAGE, "%.300s:%zu: %s", r->file, line + 1, what);
}

static int next(struct reader *r, yaml_event_t *e, struct mf_err *err)
{
    if (yaml_parser_parse(&r->yaml, e))
        return 0;
    return wrong(r, r->yaml.problem_mark.line, err, r->yaml.problem ? r->yaml.problem : "no YAML");
}

static struct mf_item *placed(const struct reader *r, const yaml_event_t *e, struct mf_item *x)
{
    const size_t size = strlen(r->file) + 24;
    x->where = mf_xcalloc(size, 1);
    snprintf(x->where, size, "%s:%zu", r->file, e->start_mark.line + 1);
    return x;
}

static int node(struct reader *r, const yaml_event_t *e, int depth, struct mf_item **to, struct mf_err *err);

static int list(struct reader *r, struct mf_item *x, int depth, struct mf_err *err)
{
    for (;;) {
        yaml_event_t e;
        struct mf_item *child = NULL;
        int rc = next(r, &e, err);
        if (rc)
            return rc;
        const bool last = e.type == YAML_SEQUENCE_END_EVENT;
        if (!last && (rc = node(r, &e, depth, &child, err)) == 0)
            mf_item_add(x, child);
        yaml_event_delete(&e);
        if (last || rc)
            return rc;
    }
}

/* Adds an entry; "training.batch_size: 5" is {training: {batch_size: 5}}. A repeated name is an error. */
static int put_once(struct reader *r, struct mf_item *map, const char *name, size_t line, struct mf_item *child,
                    struct mf_err *err)
{
    const char *dot = mf_key_find(name) < 0 ? NULL : strchr(name, '.');
    struct mf_item *there = mf_item_find(map, name);
    if (dot) {
        char group[NAME_BYTES + 1];
        snprintf(group, sizeof group, "%.*s", (int)(dot - name), name);
        struct mf_item *in = mf_item_find(map, group);
        there = in && in->is == MF_IS_MAP ? mf_item_find(in, dot + 1) : in;
    }
    if (!there && dot)
        mf_item_put_at(map, name, child);
    else if (!there)
        mf_item_put(map, name, child);
    if (!there)
        return 0;
    mf_item_free(child);
    return mf_err_set(err, MF_EUSAGE, "%.150s:%zu: '%.100s' was already set at %.150s", r->file, line + 1, name,
                      there->where);
}

/* <<: *a or [*a, *b]: the map's own entries win. */
static void inherit(struct mf_item *map, struct mf_item *from)
{
    for (int i = 0; from->is == MF_IS_LIST && i < from->n; i++)
        inherit(map, from->child[i]);
    for (int i = 0; from->is == MF_IS_MAP && i < from->n; i++)
        if (!mf_item_find(map, from->name[i]))
            mf_item_put(map, from->name[i], mf_item_copy(from->child[i]));
}

static int entry(struct reader *r, struct mf_item *map, const yaml_event_t *key, int depth, struct mf_item **inherited,
                 struct mf_err *err)
{
    const char *name = (const char *)key->data.scalar.value;
    yaml_event_t e;
    struct mf_item *child = NULL;
    if (key->type != YAML_SCALAR_EVENT || !*name || strlen(name) > NAME_BYTES)
        return mf_err_set(err, MF_EUSAGE, "%.300s:%zu: a key must be a name of at most %d characters", r->file,
                          key->start_mark.line + 1, NAME_BYTES);
    int rc = next(r, &e, err);
    if (rc)
        return rc;
    rc = node(r, &e, depth, &child, err);
    yaml_event_delete(&e);
    if (rc)
        return rc;
    if (!strcmp(name, "<<") && !*inherited) {
        *inherited = child;
        return 0;
    }
    return put_once(r, map, name, key->start_mark.line, child, err);
}

static int map(struct reader *r, struct mf_item *x, int depth, struct mf_err *err)
{
    struct mf_item *inherited = NULL;
    for (int rc = 0;;) {
        yaml_event_t key;
        if ((rc = next(r, &key, err)) == 0) {
            const bool last = key.type == YAML_MAPPING_END_EVENT;
            if (!last)
                rc = entry(r, x, &key, depth, &inherited, err);
            else if (inherited)
                inherit(x, inherited);
            yaml_event_delete(&key);
            if (!last && rc == 0)
                continue;
        }
        mf_item_free(inherited);
        return rc;
    }
}

static int alias(struct reader *r, const yaml_event_t *e, struct mf_item **to, struct mf_err *err)
{
    const char *name = (const char *)e->data.alias.anchor;
    for (int i = r->n_anchors; i-- > 0;)
        if (!strcmp(r->anchor[i].name, name)) {
            r->nodes += mf_item_count(r->anchor[i].of);
            if (r->nodes > MF_ITEMS_MAX)
                return wrong(r, e->start_mark.line, err,
                             "its aliases expand it beyond the maximum size of a configuration");
            *to = mf_item_copy(r->anchor[i].of);
            return 0;
        }
    return mf_err_set(err, MF_EUSAGE, "%.300s:%zu: no anchor '&%.64s' precedes it", r->file, e->start_mark.line + 1,
                      name);
}

static const char *tag_of(const yaml_event_t *e)
{
    return (const char *)(e->type == YAML_SCALAR_EVENT           ? e->data.scalar.tag
                          : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.tag
                          : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
                                                                 : NULL);
}

static const char *anchor_of(const yaml_event_t *e)
{
    return (const char *)(e->type == YAML_SCALAR_EVENT          ? e->data.scalar.anchor
                          : e->type == YAML_MAPPING_START_EVENT ? e->data.mapping_start.anchor
                                                                : e->data.sequence_start.anchor);
}

static int node(struct reader *r, const yaml_event_t *e, int depth, struct mf_item **to, struct mf_err *err)
{
    const size_t line = e->start_mark.line;
    int rc = 0;
    if (depth > DEPTH_MAX)
        return wrong(r, line, err, "it is nested more than 32 levels deep");
    if (++r->nodes > MF_ITEMS_MAX)
        return wrong(r, line, err, "it is too long for a configuration");
    if (tag_of(e))
        return wrong(r, line, err, "tags are not supported");
    if (e->type == YAML_ALIAS_EVENT)
        return alias(r, e, to, err);
    if (e->type == YAML_SCALAR_EVENT) {
        const char *text = (const char *)e->data.scalar.value;
        if (strlen(text) != e->data.scalar.length)
            return wrong(r, line, err, "it contains a NUL byte");
        *to = placed(r, e, mf_item_scalar(text, e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, MF_YAML));
    } else {
        const bool is_map = e->type == YAML_MAPPING_START_EVENT;
        struct mf_item *x = placed(r, e, is_map ? mf_item_map() : mf_item_list());
        if ((rc = is_map ? map(r, x, depth + 1, err) : list(r, x, depth + 1, err))) {
            mf_item_free(x);
            return rc;
        }
        *to = x;
    }
    if (anchor_of(e)) {
        if (r->n_anchors == ANCHORS_MAX)
            return wrong(r, line, err, "it has too many anchors");
        r->anchor[r->n_anchors++] = (struct anchor){mf_xstrdup(anchor_of(e)), *to};
    }
    return 0;
}

static int document(struct reader *r, struct mf_item **to, struct mf_err *err)
{
    for (int documents = 0;;) {
        yaml_event_t e;
        int rc = next(r, &e, err);
        if (rc)
            return rc;
        const yaml_event_type_t type = e.type;
        if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
            rc = wrong(r, e.start_mark.line, err, "a second document");
        else if (type == YAML_MAPPING_START_EVENT)
            rc = node(r, &e, 0, to, err);
        else if (type == YAML_SEQUENCE_START_EVENT || (type == YAML_SCALAR_EVENT && e.data.scalar.length))
            rc = wrong(r, e.start_mark.line, err, "it is not a map of keys");
        yaml_event_delete(&e);
        if (rc || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

/* The comments before the first line of YAML may contain "# @package NAME". */
static void find_package(const char *text, char *to, size_t size)
{
    *to = '\0';
    for (const char *line = text; *line == '#' || *line == '\n' || *line == '\r';) {
        const char *at = line + 1 + strspn(line + 1, " \t");
        const size_t n = strcspn(line, "\n");
        if (*line == '#' && !strncmp(at, "@package ", 9)) {
            at += 9 + strspn(at + 9, " ");
            snprintf(to, size, "%.*s", (int)strcspn(at, " \t\r\n#"), at);
            return;
        }
        line += n + (line[n] == '\n');
    }
}

static int slurp(FILE *f, const char *path, char *text, size_t *n, struct mf_err *err)
{
    int rc = 0;
    *n = fread(text, 1, FILE_BYTES + 1, f);
    if (ferror(f))
        rc = mf_err_set(err, MF_EUSAGE, "cannot read the configuration %.300s: %s", path, strerror(errno));
    else if (*n > FILE_BYTES)
        rc = mf_err_set(err, MF_EUSAGE, "the configuration %.300s is longer than %d bytes", path, FILE_BYTES);
    text[*n > FILE_BYTES ? FILE_BYTES : *n] = '\0';
    return rc;
}

int mf_yaml_read(struct mf_item **to, const char *path, char *package, size_t size, struct mf_err *err)
{
    struct mf_err why;
    FILE *f = mf_starts(path, "/dev/") ? fopen(path, "re") : mf_file_read(path, &why); /* a shell's <(..) is a pipe */
    if (!f && mf_starts(path, "/dev/"))
        mf_err_errno(&why, "cannot open %.300s", path);
    if (!f)
        return mf_err_set(err, MF_EUSAGE, "the configuration cannot be read: %.400s", why.text);
    int rc = mf_yaml_take(to, f, path, package, size, err);
    fclose(f);
    return rc;
}

int mf_yaml_take(struct mf_item **to, FILE *from, const char *path, char *package, size_t size, struct mf_err *err)
{
    char *text = mf_xcalloc(FILE_BYTES + 2, 1);
    struct reader *r = mf_xcalloc(1, sizeof *r);
    struct mf_item *root = NULL;
    size_t n = 0;
    int rc = slurp(from, path, text, &n, err);
    r->file = path;
    if (rc == 0 && yaml_parser_initialize(&r->yaml)) {
        find_package(text, package, size);
        yaml_parser_set_input_string(&r->yaml, (const unsigned char *)text, n);
        rc = document(r, &root, err);
        yaml_parser_delete(&r->yaml);
    }
    for (int i = 0; i < r->n_anchors; i++)
        free(r->anchor[i].name);
    free(r);
    free(text);
    if (rc)
        mf_item_free(root);
    else
        *to = root ? root : mf_item_map();
    return rc;
}
