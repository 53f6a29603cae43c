/* value.h - what was written, before a key gives it a type.
 *
 * The same characters mean different things on the command line (Hydra's
 * override grammar) and in a file (YAML 1.1 with OmegaConf's floats): 010 is
 * the text "010" there and 8 here, yes is a text there and true here.
 */
#ifndef MF_CONF_VALUE_H
#define MF_CONF_VALUE_H

#include "conf/conf.h"

enum mf_grammar { MF_HYDRA, MF_YAML };
enum mf_class { MF_IS_NULL, MF_IS_BOOL, MF_IS_INT, MF_IS_FLOAT, MF_IS_TEXT };

struct mf_scalar {
    enum mf_class is;
    bool b;
    int64_t i;
    double f;   /* of an int too */
    char *text; /* as written, quotes and escapes resolved; owned by the value */
};

enum { MF_LIST_MAX = 16 };

struct mf_value {
    bool list;
    int n; /* 1 unless a list */
    struct mf_scalar item[MF_LIST_MAX];
};

void mf_value_release(struct mf_value *v);
/* One more item; a quoted one is text whatever it looks like. */
int mf_value_add(struct mf_value *v, const char *text, bool quoted, enum mf_grammar g, struct mf_err *err);
/* What stands right of key=: a scalar or a [list] in Hydra's grammar. */
int mf_value_word(struct mf_value *v, const char *text, struct mf_err *err);

/* A value that has met its key. */
union mf_typed {
    bool b;
    int64_t i;
    double f;
    int choice;
    char *s; /* owned; NULL is null */
    struct mf_ints ints;
    struct mf_names names;
};

/* Check type and range. The sentence begins with "must be". */
int mf_typed_take(union mf_typed *to, const struct mf_key *key, const struct mf_value *v, struct mf_err *err);
/* As YAML writes it; malloc'ed, NULL for null. Strings are as they are, without quotes. */
char *mf_typed_text(const union mf_typed *v, const struct mf_key *key);
/* Would YAML read this text as a text? Then it needs no quotes. */
bool mf_scalar_is_plain(const char *text);

#endif
