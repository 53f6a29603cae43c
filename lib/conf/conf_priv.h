/* conf_priv.h - shared by the files that find, set and show keys. */
#ifndef MF_CONF_CONF_PRIV_H
#define MF_CONF_CONF_PRIV_H

#include "conf/item.h"

struct mf_slot {
    union mf_typed v;
    char *text;   /* v as YAML writes it; NULL: null */
    char *where;  /* "FILE:LINE" or "word"; NULL: the default */
    int reading;  /* of that file or word */
    bool omitted; /* not printed */
    bool missing; /* ???: mandatory; in a record: a ${..} that is not a value of its key */
};

struct mf_conf {
    int n, readings;
    bool is_record;       /* a run's record: not resolved again */
    struct mf_slot *slot; /* one for each of mf_keys */
    struct mf_item *rest; /* unknown keys: kept and printed, without effect */
    char remark[512];     /* about them; "": none in a file */
};

/* Sets the keys from a composed tree; c takes it, also on failure. */
int mf_conf_take(struct mf_conf *c, struct mf_item *root, struct mf_err *err);

int mf_key_find(const char *name);      /* its row in mf_keys, also by an alias; -1: none */
bool mf_key_is_group(const char *name); /* "training": some key's name begins with "training." */
/* "'training.batch_size' or 'clone.batch_size'": the nearest key, and others as near that end alike. */
enum { MF_NEAREST = 200 };
void mf_key_nearest(const char *name, char *keys, size_t size);
/* A new item; *to is unchanged if there is no such key. */
int mf_key_default(const char *name, struct mf_item **to);
/* Expands the short form {env: lift} to {env: {name: lift}}. A value in the place of another group of keys, policy:
 * PPO, moves into the group, too, so that keys can be set beside it. */
void mf_key_spell_out(struct mf_item *root);

#endif
