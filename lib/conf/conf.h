/* conf.h - the one configuration: a table of typed keys, and where values come from.
 *
 * keys.c holds every key of every stage once: name, type, default, unit,
 * range, help. Values come, later ones winning, from the defaults, the file
 * of MF_CONFIG, --config files, and key=value words in Hydra's grammar. A
 * stage binds the keys that it uses to fields of its own struct; keys of the
 * table that it does not use are accepted, so that a pipeline can hand the
 * same words to all. An unknown key is an error that names the nearest one.
 */
#ifndef MF_CONF_CONF_H
#define MF_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum mf_type {
    MF_BOOL,   /* bool: true, false */
    MF_INT,    /* int64_t: 10, 1_000_000, 1e6 when whole */
    MF_FLOAT,  /* double */
    MF_STR,    /* const char *; null is NULL */
    MF_CHOICE, /* int: the position in `words`, "a|b|c" */
    MF_INTS,   /* struct mf_ints: [512,512] */
    MF_NAMES,  /* struct mf_names: [object, point_cloud] */
};

struct mf_ints {
    int n;
    int64_t v[16];
};

struct mf_names {
    int n;
    char v[16][64];
};

struct mf_key {
    const char *name; /* "training.learning_rate" */
    enum mf_type type;
    const char *def;   /* as text; NULL: null */
    const char *words; /* of a choice, or the range "[0,1]", "(0,)" of a number; NULL: any */
    const char *unit;  /* "control steps"; NULL: none */
    const char *help;  /* goes on from the unit: "in an episode" */
};

extern const struct mf_key mf_keys[]; /* ends with a NULL name */

/* One key of a stage's struct. A table ends with a NULL key. */
struct mf_bind {
    const char *key;
    size_t at; /* offsetof the field */
};

struct mf_conf; /* the resolved values, with where each came from */

struct mf_conf *mf_conf_new(void); /* all defaults */
void mf_conf_free(struct mf_conf *c);
int mf_conf_file(struct mf_conf *c, const char *path, struct mf_err *err); /* YAML */
int mf_conf_word(struct mf_conf *c, const char *word, struct mf_err *err); /* key=value */
int mf_conf_bind(const struct mf_conf *c, const struct mf_bind *table, void *self, struct mf_err *err);
const char *mf_conf_text(const struct mf_conf *c, const char *key); /* NULL: null */
bool mf_conf_was_set(const struct mf_conf *c, const char *key);     /* not the default */
void mf_conf_print(const struct mf_conf *c, FILE *to);              /* --cfg: YAML, reads back */
void mf_conf_help(const struct mf_bind *table, FILE *to);           /* --help's rows, 100 columns wide */

#endif
