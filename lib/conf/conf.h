/* conf.h - the configuration: a table of typed keys, and the sources of their values.
 *
 * keys.c holds every key of every stage once: name, type, default, unit, range, help. Values come, later ones winning,
 * from the defaults, YAML files that Hydra's defaults lists compose, and words in Hydra's grammar. A stage binds the
 * keys that it uses to fields of its own struct; keys of the table that it does not use are accepted, so that a
 * pipeline can hand the same words to all. An unknown key is an error that names the nearest one.
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
    MF_INTS,   /* struct mf_ints: [512,512]; 512 is [512] */
    MF_NAMES,  /* struct mf_names: [object, point_cloud] */
};

/* A member of that type, for structs whose members are rows of policy.inc or training.inc. */
#define MF_VALUE_BOOL(member)   bool member;
#define MF_VALUE_INT(member)    int64_t member;
#define MF_VALUE_FLOAT(member)  double member;
#define MF_VALUE_CHOICE(member) int member;
#define MF_VALUE_INTS(member)   struct mf_ints member;

enum { MF_LIST_MAX = 16 };

struct mf_ints {
    int n;
    int64_t v[MF_LIST_MAX];
};

struct mf_names {
    int n;
    char v[MF_LIST_MAX][64];
};

struct mf_key {
    const char *name; /* "training.learning_rate" */
    enum mf_type type;
    const char *def; /* as text; NULL: null */
    /* "a|b" of a choice; "[0,1]", "(0,)" of a number; "each once" behind it, or alone, of a list; of a text "path" or
     * "address", in which ~ is $HOME, or "name", which may be a part of a path and never is one; NULL: any. */
    const char *words;
    const char *unit; /* "control steps"; NULL: none */
    const char *help; /* "longest episode; 0: the limit of the environment" */
};

extern const struct mf_key mf_keys[]; /* ends with a NULL name */

/* One key of a stage's struct. A table ends with a NULL key. */
struct mf_bind {
    const char *key;
    size_t at; /* offsetof the field; MF_BIND_NONE: the key is read by its name */
};
#define MF_BIND_NONE ((size_t)-1)

/* Rows of another's table, for a struct at `at` of the stage's. A list of them ends with a NULL table. */
struct mf_bind_table {
    const struct mf_bind *rows;
    size_t at;
};
/* A stage's own rows and those of its tables, as one table for the stage's struct; the caller frees it. */
struct mf_bind *mf_bind_join(const struct mf_bind *own, const struct mf_bind_table *tables);

struct mf_conf; /* the resolved values and their origins */

struct mf_conf *mf_conf_new(void); /* all defaults */
void mf_conf_free(struct mf_conf *c);

/* Sources of values; later ones win: files, the named file, words. */
struct mf_sources {
    int n_files;
    const char *const *file; /* paths: --config */
    const char *name;        /* --config-name: NAME.yaml of a folder; NULL: none */
    const char *dir;         /* --config-dir; NULL: configs */
    const char *installed;   /* a folder searched after all others; NULL: none */
    int n_words;
    const char *const *word; /* key=value, +key=value, ++key=value, ~key, group=option */
};

/* Composes and checks everything; once per configuration. */
int mf_conf_load(struct mf_conf *c, const struct mf_sources *from, struct mf_err *err);
/* Reads the configuration recorded in a run's folder, configs/PROGRAM.yaml, literally: references, defaults lists and
 * links out of the folder are not followed, as the file is not trusted. MF_EFORMAT: it is empty. */
int mf_conf_recorded(struct mf_conf *c, const char *run, const char *program, struct mf_err *err);
/* Prints the jobs of a sweep, a=1,2 b=3,4: one line of words per job; the last word changes fastest. */
int mf_conf_sweep(const struct mf_sources *from, FILE *to, struct mf_err *err);
/* "a.b, c.d": unknown keys, kept under conf.unknown=keep. "": none. */
const char *mf_conf_remark(const struct mf_conf *c);
int mf_conf_bind(const struct mf_conf *c, const struct mf_bind *table, void *self, struct mf_err *err);
/* Compares the keys of the table that `was` sets, except those that a resumed run may change. MF_EUSAGE on a
 * difference: "training.batch_size=64, which was 512; ..". */
int mf_conf_agrees(const struct mf_conf *c, const struct mf_conf *was, const struct mf_bind *table, struct mf_err *err);
/* The keys of the table as lines "key=value", without paths and what depends on the host. The caller frees them. */
char *mf_conf_lines(const struct mf_conf *c, const struct mf_bind *table);
const char *mf_conf_text(const struct mf_conf *c, const char *key); /* NULL: null */
bool mf_conf_has(const char *key);
/* Sets the default of an unset text key, derived elsewhere; it is bound and printed from now on. */
const char *mf_conf_assume(struct mf_conf *c, const char *key, const char *text);
void mf_conf_assume_names(struct mf_conf *c, const char *key, const struct mf_names *names); /* only printed so */
/* Omits a key from the output: its default does not apply, and a reader of the output must not take it as set. */
void mf_conf_omit(struct mf_conf *c, const char *key);
/* "key=value" as a default from elsewhere, for an unset key, which still counts as unset. */
int mf_conf_prefer(struct mf_conf *c, const char *word, struct mf_err *err);
bool mf_conf_was_set(const struct mf_conf *c, const char *key); /* not the default */
bool mf_conf_is_word(const struct mf_conf *c, const char *key); /* set by a word, and not by a file */
void mf_conf_print(const struct mf_conf *c, FILE *to);          /* --cfg: YAML, reads back */
/* Rows of --help, 100 columns wide, in sections: a program's own keys first, common ones last. */
void mf_conf_help(const struct mf_bind *table, FILE *to);
/* The same for these keys, or all if n is 0. MF_EUSAGE, and no output, for an unknown key. */
int mf_conf_doc(const char *const *keys, int n, FILE *to, struct mf_err *err);

#endif
