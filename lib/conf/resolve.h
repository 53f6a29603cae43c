/* resolve.h - ${..} in a value: references and OmegaConf's resolvers. */
#ifndef MF_CONF_RESOLVE_H
#define MF_CONF_RESOLVE_H

#include "conf/item.h"

enum { MF_CHAIN_MAX = 64 };

struct mf_resolver {
    struct mf_item *root;
    bool keeps;    /* ${..} stays as written; only \${ becomes ${ */
    int made;      /* items copied so far, to bound references to references */
    bool hopeless; /* the failure is a cycle or an endless chain */
    bool placed;   /* the error already has its position */
    int depth;
    const struct mf_item *chain[MF_CHAIN_MAX]; /* pending references */
};

/* ${a.b}, ${.sibling}, ${a[0]}, "run_${n}", ${oc.env:NAME,default}, ${oc.select:a.b,default}, ${oc.decode:text},
 * ${now:%Y-%m-%d}, and ${eval:'..'}, arithmetic on numbers. Referenced values are resolved first; an unset key has its
 * default. \${ is the text ${. Errors begin with the position of x. */
int mf_resolve(struct mf_resolver *r, struct mf_item *x, struct mf_err *err);
/* The text escaped, so that it resolves to itself; malloc'ed. */
char *mf_escaped(const char *text);

/* "2*(3+4)" with Python's + - * / // % ** and round int float abs min max; an integer stays one. */
int mf_arithmetic(const char *text, struct mf_item **to, struct mf_err *err);

#endif
