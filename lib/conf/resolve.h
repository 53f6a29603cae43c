/* resolve.h - ${..} in a value: other values, and what OmegaConf's resolvers give. */
#ifndef MF_CONF_RESOLVE_H
#define MF_CONF_RESOLVE_H

#include "conf/item.h"

enum { MF_CHAIN_MAX = 64 };

struct mf_resolver {
    struct mf_item *root;
    bool keeps;    /* ${..} stays as it is written, and only \${ becomes ${ */
    int made;      /* items copied so far: references to references explode */
    bool hopeless; /* what failed was a cycle, or had no end */
    bool placed;   /* the sentence of a failure has its place */
    int depth;
    const struct mf_item *chain[MF_CHAIN_MAX]; /* who waits for whom */
};

/* ${a.b}, ${.sibling}, ${a[0]}, "run_${n}", ${oc.env:NAME,default}, ${oc.select:a.b,default}, ${oc.decode:text},
 * ${now:%Y-%m-%d}, and ${eval:'..'}, arithmetic on numbers. What is referred to is resolved first, and a key that no
 * file gives has its default. \${ is the text ${. Sentences begin with the place of x. */
int mf_resolve(struct mf_resolver *r, struct mf_item *x, struct mf_err *err);
/* What resolves to this text, whatever is in it; malloc'ed. */
char *mf_escaped(const char *text);

/* "2*(3+4)" with Python's + - * / // % ** and round int float abs min max; an integer stays one. */
int mf_arithmetic(const char *text, struct mf_item **to, struct mf_err *err);

#endif
