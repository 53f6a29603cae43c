/* parse.h - the two grammars: a YAML file, and a word of the command line as Hydra reads it. */
#ifndef MF_CONF_PARSE_H
#define MF_CONF_PARSE_H

#include "conf/item.h"

enum { MF_ITEMS_MAX = 100000 };

/* A map, also of an empty file. `package` is what a comment "# @package NAME" says, or "". Tags are refused: they may
 * run code. */
int mf_yaml_read(struct mf_item **root, const char *path, char *package, size_t size, struct mf_err *err);
/* The same of an open file; the path is for sentences. */
int mf_yaml_take(struct mf_item **root, FILE *from, const char *path, char *package, size_t size, struct mf_err *err);

enum mf_override {
    MF_OVERRIDE_SET,    /* a.b=v:   where there is an a.b */
    MF_OVERRIDE_ADD,    /* +a.b=v:  where there is none */
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
    struct mf_item *glob; /* {include: PATTERNS, exclude: PATTERNS}, whose choices are still to be found; NULL: none */
};

/* A word is complete: its key is not yet looked for. */
int mf_word_read(struct mf_word *w, const char *text, struct mf_err *err);
int mf_word_choose(struct mf_word *w, const char *text, struct mf_err *err); /* a text more to choose from */
void mf_word_release(struct mf_word *w);
/* Append to the sentence how `text` is quoted, where the key is one of texts: 'run.name="a,b"'. Returns its code. */
int mf_word_hint(const char *key, const char *text, struct mf_err *err);
void mf_shell_print(const char *word, FILE *to); /* so that a shell reads it back as one word */
/* What stands right of key=, alone: "[256, 256]". */
int mf_word_value(struct mf_item **to, const char *text, struct mf_err *err);

#endif
