/* pickle.h - a Python pickle as a tree of inert nodes. Nothing is imported, called or made.
 *
 * Protocols 2 to 4, as torch.save, dill and NumPy write them. A global stays
 * its name; what a pickle would call becomes an object that knows the name of
 * the callable and its arguments, so an OrderedDict, a tensor and something
 * malicious are the same thing here, and who reads the tree decides which
 * names mean something to him.
 *
 * Nodes may be reached by several ways, and by themselves: who walks the tree
 * bounds his depth and his steps.
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
    MF_PICKLE_OBJECT, /* text: what would be called, "torch._utils._rebuild_tensor_v2"; "persistent id" */
};

struct mf_pickle_node {
    enum mf_pickle_kind kind;
    int64_t integer;  /* BOOL, INT */
    double number;    /* FLOAT */
    const char *text; /* TEXT, BYTES, GLOBAL, OBJECT: len bytes, no NUL at the end; in the pickle or in `own` */
    size_t len;
    struct mf_pickle_node *args, *state; /* OBJECT: a tuple, and what __setstate__ would get; NULL: none */
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

/* The bytes must outlive p; `held` of the file hold them, less than size where they were inflated: what is made of them
 * is bounded by that. MF_EFORMAT with the place where it is cut, malformed, too big or of another protocol; path begins
 * the sentence. */
int mf_pickle_parse(struct mf_pickle *p, const void *bytes, size_t size, size_t held, const char *path,
                    struct mf_err *err);
void mf_pickle_release(struct mf_pickle *p); /* a zeroed one is fine */

bool mf_node_is(const struct mf_pickle_node *node, enum mf_pickle_kind kind, const char *text); /* node NULL: false */
const struct mf_pickle_node *mf_node_get(const struct mf_pickle_node *node,
                                         const char *key); /* among the first 64 pairs; NULL: none */

#endif
