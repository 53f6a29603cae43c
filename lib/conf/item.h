/* item.h - untyped values as written: scalars, lists and maps, each with its position.
 *
 * The same characters mean different things on the command line (Hydra's override grammar) and in a file (YAML 1.1 with
 * OmegaConf's floats): 010 is the text "010" there and 8 here, yes is a text there and true here.
 */
#ifndef MF_CONF_ITEM_H
#define MF_CONF_ITEM_H

#include "conf/conf.h"

enum mf_grammar { MF_HYDRA, MF_YAML };
enum mf_class { MF_IS_NULL, MF_IS_BOOL, MF_IS_INT, MF_IS_FLOAT, MF_IS_TEXT, MF_IS_LIST, MF_IS_MAP };
enum mf_item_state { MF_RAW, MF_RESOLVING, MF_RESOLVED }; /* of the ${..} in it */

struct mf_item {
    enum mf_class is;
    bool b;
    int64_t i;
    double f;   /* of an int too */
    char *text; /* of a scalar, as written, quotes and escapes resolved */
    int n;      /* of a list or a map */
    struct mf_item **child;
    char **name;              /* of a map's children */
    struct mf_item *up;       /* NULL: the root */
    char *where;              /* "FILE:LINE"; NULL: a word of the command line */
    int reading;              /* order of reading: of two names for one key, the later one wins */
    bool brief;               /* short form, written in the place of its map: env: lift is {env: {name: lift}} */
    enum mf_item_state state; /* of interpolation */
};

struct mf_item *mf_item_scalar(const char *text, bool quoted, enum mf_grammar g); /* quoted: text in any case */
struct mf_item *mf_item_list(void);
struct mf_item *mf_item_map(void);
void mf_item_free(struct mf_item *x);
struct mf_item *mf_item_copy(const struct mf_item *x);
int mf_item_count(const struct mf_item *x); /* nodes; 32 bytes of text weigh as much as one */
void mf_item_stamp(struct mf_item *x, int reading);
void mf_item_become(struct mf_item *x,
                    struct mf_item *value); /* moves the content of value into x; x keeps its position */

/* The child of a map that was written in short form; NULL: none. */
struct mf_item *mf_item_brief(const struct mf_item *map);
/* The child of a map; NULL: none. */
struct mf_item *mf_item_find(const struct mf_item *map, const char *name);
/* Below `root` by names joined with dots, a number in a list; NULL: none. */
struct mf_item *mf_item_at(const struct mf_item *root, const char *path);
/* Both take the child. put replaces one of that name. */
void mf_item_add(struct mf_item *list, struct mf_item *child);
void mf_item_put(struct mf_item *map, const char *name, struct mf_item *child);
/* As put, through maps that are made where they are missing; "" merges into root itself. */
void mf_item_put_at(struct mf_item *root, const char *path, struct mf_item *value);
/* Merges maps; other values in `over` replace those in `map`. Takes `over`. */
void mf_item_merge(struct mf_item *map, struct mf_item *over);
void mf_item_remove(struct mf_item *x); /* from its parent, with its name */
/* "policy.hidden" of an item that is in a tree; of a brief one the map's. */
void mf_item_path(const struct mf_item *x, char *to, size_t size);
/* As YAML, on one line, that reads back. */
void mf_item_print(const struct mf_item *x, FILE *to);
void mf_text_print(const char *text, FILE *to);  /* a text, quoted if YAML would read it differently */
void mf_value_print(const char *text, FILE *to); /* the same, with no reference in it */

/* A value with the type of its key. */
union mf_typed {
    bool b;
    int64_t i;
    double f;
    int choice;
    char *s; /* owned; NULL is null */
    struct mf_ints ints;
    struct mf_names names;
};

/* Checks type and range. The error begins with "must be". */
int mf_typed_take(union mf_typed *to, const struct mf_key *key, const struct mf_item *v, struct mf_err *err);
/* The shortest decimal that reads back to the same double, as Python's repr writes it; YAML's .inf and .nan. */
void mf_float_text(char *to, size_t size, double f);
/* As Python's str() prints it: 0.0001 of 1e-4, True, None, [1, 'a']. malloc'ed. */
char *mf_item_str(const struct mf_item *x);
/* As YAML writes it; malloc'ed, NULL for null. Strings are as they are, without quotes. */
char *mf_typed_text(const union mf_typed *v, const struct mf_key *key);

#endif
