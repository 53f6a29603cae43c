#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"
#include "conf/conf_priv.h"

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 16, PATH_LEN = 128 };

struct reader {
    struct mf_conf *conf;
    yaml_parser_t yaml;
    const char *file;
    int number;
    char path[PATH_LEN + 1]; /* "task.env_runner" while inside that map */
};

/* Refuses what would need a second reading: aliases may explode, tags may run code. */
static int next(struct reader *r, yaml_event_t *e, struct mf_err *err)
{
    if (!yaml_parser_parse(&r->yaml, e))
        return mf_err_set(err, MF_EUSAGE, "%s:%zu: %s", r->file, r->yaml.problem_mark.line + 1,
                          r->yaml.problem ? r->yaml.problem : "no YAML");
    const yaml_char_t *tag = e->type == YAML_SCALAR_EVENT           ? e->data.scalar.tag
                             : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.tag
                             : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
                                                                    : NULL;
    if (e->type != YAML_ALIAS_EVENT && !tag)
        return 0;
    size_t line = e->start_mark.line + 1;
    yaml_event_delete(e);
    return mf_err_set(err, MF_EUSAGE, "%s:%zu: aliases and tags are not read", r->file, line);
}

static char *place(const struct reader *r, const yaml_event_t *e)
{
    size_t size = strlen(r->file) + 24;
    char *where = mf_xcalloc(size, 1);
    snprintf(where, size, "%s:%zu", r->file, e->start_mark.line + 1);
    return where;
}

static int add(struct mf_value *v, const yaml_event_t *e, struct mf_err *err)
{
    const char *text = (const char *)e->data.scalar.value;
    if (strlen(text) != e->data.scalar.length)
        return mf_err_set(err, MF_EUSAGE, "holds a NUL");
    return mf_value_add(v, text, e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, MF_YAML, err);
}

static int list(struct reader *r, struct mf_value *v, struct mf_err *err)
{
    v->list = true;
    for (;;) {
        yaml_event_t e;
        int rc = next(r, &e, err);
        if (rc)
            return rc;
        bool last = e.type == YAML_SEQUENCE_END_EVENT;
        if (!last)
            rc = e.type == YAML_SCALAR_EVENT ? add(v, &e, err)
                                             : mf_err_set(err, MF_EUSAGE, "a list holds plain values only");
        yaml_event_delete(&e);
        if (last || rc)
            return rc;
    }
}

static int map(struct reader *r, int depth, struct mf_err *err);

/* The node that begins with *e belongs to the key r->path. */
static int node(struct reader *r, const yaml_event_t *e, int depth, struct mf_err *err)
{
    if (e->type == YAML_MAPPING_START_EVENT)
        return map(r, depth + 1, err);
    struct mf_value v = {0};
    char *where = place(r, e);
    int rc = e->type == YAML_SCALAR_EVENT ? add(&v, e, err) : list(r, &v, err);
    if (rc)
        mf_err_at(err, "%s: %s", where, r->path);
    else if (v.list || v.item[0].is != MF_IS_NULL || !mf_conf_is_group(r->path)) /* an empty group is fine */
        rc = mf_conf_set(r->conf, r->path, &v, where, r->number, err);
    free(where);
    mf_value_release(&v);
    return rc;
}

static int entry(struct reader *r, const yaml_event_t *key, int depth, struct mf_err *err)
{
    size_t outer = strlen(r->path);
    int n = key->type != YAML_SCALAR_EVENT ? -1
                                           : snprintf(r->path + outer, sizeof r->path - outer, "%s%s", outer ? "." : "",
                                                      (const char *)key->data.scalar.value);
    if (n < 0 || (size_t)n >= sizeof r->path - outer)
        return mf_err_set(err, MF_EUSAGE, "%s:%zu: a key must be a name of at most %d characters", r->file,
                          key->start_mark.line + 1, PATH_LEN);
    yaml_event_t e;
    int rc = next(r, &e, err);
    if (rc)
        return rc;
    rc = node(r, &e, depth, err);
    yaml_event_delete(&e);
    r->path[outer] = '\0';
    return rc;
}

static int map(struct reader *r, int depth, struct mf_err *err)
{
    if (depth > DEPTH_MAX)
        return mf_err_set(err, MF_EUSAGE, "%s: maps are nested more than %d deep", r->file, DEPTH_MAX);
    for (;;) {
        yaml_event_t key;
        int rc = next(r, &key, err);
        if (rc)
            return rc;
        bool last = key.type == YAML_MAPPING_END_EVENT;
        if (!last)
            rc = entry(r, &key, depth, err);
        yaml_event_delete(&key);
        if (last || rc)
            return rc;
    }
}

static int document(struct reader *r, struct mf_err *err)
{
    for (int documents = 0;;) {
        yaml_event_t e;
        int rc = next(r, &e, err);
        if (rc)
            return rc;
        yaml_event_type_t type = e.type;
        bool empty = type == YAML_SCALAR_EVENT && !e.data.scalar.length;
        yaml_event_delete(&e);
        if (type == YAML_MAPPING_START_EVENT)
            rc = map(r, 1, err);
        else if ((type == YAML_SCALAR_EVENT && !empty) || type == YAML_SEQUENCE_START_EVENT)
            rc = mf_err_set(err, MF_EUSAGE, "%s: holds no map of keys", r->file);
        else if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
            rc = mf_err_set(err, MF_EUSAGE, "%s: holds more than one document", r->file);
        if (rc || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

int mf_conf_file(struct mf_conf *c, const char *path, struct mf_err *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return mf_err_set(err, MF_EUSAGE, "cannot open the configuration %s: %s", path, strerror(errno));
    char *text = mf_xcalloc(FILE_MAX + 1, 1);
    size_t n = fread(text, 1, FILE_MAX + 1, f);
    int rc = 0;
    if (ferror(f))
        rc = mf_err_set(err, MF_EUSAGE, "cannot read the configuration %s: %s", path, strerror(errno));
    else if (n > FILE_MAX)
        rc = mf_err_set(err, MF_EUSAGE, "the configuration %s is longer than %d bytes", path, FILE_MAX);
    fclose(f);
    struct reader r = {.conf = c, .file = path, .number = mf_conf_reading(c)};
    if (rc == 0 && yaml_parser_initialize(&r.yaml)) {
        yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, n);
        rc = document(&r, err);
        yaml_parser_delete(&r.yaml);
    }
    free(text);
    return rc;
}
