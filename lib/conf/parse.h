/* parse.h - the two grammars: a YAML file, and a word of the command line as Hydra reads it. */
#ifndef MF_CONF_PARSE_H
#define MF_CONF_PARSE_H

#include "conf/item.h"

enum { MF_ITEMS_MAX = 100000 };

/* Reads a map, also from an empty file. `package` is the NAME of a comment "# @package NAME", or "". Tags are refused,
 * as they may run code. */
int mf_yaml_read(struct mf_item **root, const char *path, char *package, size_t size, struct mf_err *err);
/* The same for an open file; the path is for messages. */
int mf_yaml_take(struct mf_item **root, FILE *from, const char *path, char *package, size_t size, struct mf_err *err);

enum mf_override {
    MF_OVERRIDE_SET,    /* a.b=v:   a.b must exist */
    MF_OVERRIDE_ADD,    /* +a.b=v:  a.b must not exist */
    MF_OVERRIDE_FORCE,  /* ++a.b=v: in any case */
    MF_OVERRIDE_DELETE, /* ~a.b or ~a.b=v: back to the default */
};

/* A value of a word, or one of several in a sweep: a=1,2,3, choice(1,2,3), range(1,4), glob(*). */
struct mf_choice {
    struct mf_item *value;
    char *text; /* as it was written */
};

struct mf_word {
    enum mf_override act;
    char *key; /* "training.batch_size", "policy", "policy@expert" */
    int n;     /* 0: only of a DELETE */
    struct mf_choice *choice;
    struct mf_item *glob; /* {include: PATTERNS, exclude: PATTERNS}, not yet expanded; NULL: none */
};

/* Parses a word, without looking up its key. */
int mf_word_read(struct mf_word *w, const char *text, struct mf_err *err);
int mf_word_choose(struct mf_word *w, const char *text, struct mf_err *err); /* adds a choice */
void mf_word_release(struct mf_word *w);
/* Appends to the error how to quote `text`, if the key is a text: 'run.name="a,b"'. Returns its code. */
int mf_word_hint(const char *key, const char *text, struct mf_err *err);
void mf_shell_print(const char *word, FILE *to); /* quoted as one shell word */
/* Parses a value alone, the right side of key=: "[256, 256]". */
int mf_word_value(struct mf_item **to, const char *text, struct mf_err *err);

#endif
