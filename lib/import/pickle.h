/* pickle.h - a Python pickle decoded into a tree of inert nodes. Nothing is imported or called.
 *
 * Protocols 2 to 5, as torch.save, dill and NumPy write them. A global is kept as its name; a call becomes an object
 * with the name of the callable and its arguments. An OrderedDict, a tensor and a malicious call are thus the same kind
 * of node; the reader of the tree decides which names it accepts.
 *
 * Nodes are shared and may contain themselves: a reader of the tree bounds its depth and its steps.
 */
#ifndef MF_IMPORT_PICKLE_H
#define MF_IMPORT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum mf_pickle_kind {
    MF_PICKLE_NONE,
    MF_PICKLE_BOOL,
    MF_PICKLE_INT, /* one beyond 64 bits is MF_PICKLE_BYTES */
    MF_PICKLE_FLOAT,
    MF_PICKLE_TEXT, /* UTF-8 as it came, unchecked */
    MF_PICKLE_BYTES,
    MF_PICKLE_LIST, /* sets, too */
    MF_PICKLE_TUPLE,
    MF_PICKLE_DICT,
    MF_PICKLE_GLOBAL, /* text: "torch.FloatStorage" */
    MF_PICKLE_OBJECT, /* text: the callable, "torch._utils._rebuild_tensor_v2", or "persistent id" */
};

struct mf_pickle_node {
    enum mf_pickle_kind kind;
    int64_t integer;  /* BOOL, INT */
    double number;    /* FLOAT */
    const char *text; /* TEXT, BYTES, GLOBAL, OBJECT: len bytes, no NUL at the end; in the pickle or in `own` */
    size_t len;
    struct mf_pickle_node *args, *state; /* OBJECT: a tuple, and the argument of __setstate__; NULL: none */
    size_t n, room;
    struct mf_pickle_node *
        *item;  /* n; of a DICT, and of an OBJECT that was filled like one, key, value, key, value .. */
    bool pairs; /* they are */
    char *own;  /* private */
};

enum { MF_PICKLE_MAX = 64 << 20 }; /* bytes; nodes and links are bounded too */

struct mf_pickle {
    const struct mf_pickle_node *root;
    size_t size;             /* bytes that the pickle took */
    struct mf_chunk *chunks; /* private */
    size_t n_nodes, n_links;
};

/* The bytes must outlive p. held: their size in the file, smaller than `size` where they were inflated; it bounds the
 * number of nodes. MF_EFORMAT, with the byte, where the pickle is cut, malformed, too big or of another protocol; the
 * sentence names path. */
int mf_pickle_parse(struct mf_pickle *p, const void *bytes, size_t size, size_t held, const char *path,
                    struct mf_err *err);
void mf_pickle_release(struct mf_pickle *p); /* a zeroed one is fine */

bool mf_node_is(const struct mf_pickle_node *node, enum mf_pickle_kind kind, const char *text); /* node NULL: false */
const struct mf_pickle_node *mf_node_get(const struct mf_pickle_node *node,
                                         const char *key); /* among the first 64 pairs; NULL: none */

#endif
