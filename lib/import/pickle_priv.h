/* pickle_priv.h - the stack machine that the opcodes of a pickle drive. */
#ifndef MF_IMPORT_PICKLE_PRIV_H
#define MF_IMPORT_PICKLE_PRIV_H

#include "import/pickle.h"

struct mf_machine {
    const uint8_t *begin, *at, *end;
    struct mf_pickle *out;
    struct mf_pickle_node **stack, **memo; /* a mark on the stack is NULL */
    size_t n, room, n_memo, n_known;       /* known: memo entries that are filled */
    size_t most;                           /* nodes */
    const char *path;
    struct mf_err *err;
};

/* MF_EFORMAT: the sentence goes on with the place. */
int mf_pickle_wrong(struct mf_machine *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int mf_pickle_no_memory(struct mf_machine *m);
int mf_pickle_take(struct mf_machine *m, size_t n, const uint8_t **p);
int mf_pickle_take_number(struct mf_machine *m, int bytes, uint64_t *v); /* little-endian; 0 on failure */

struct mf_pickle_node *mf_pickle_node(struct mf_machine *m, enum mf_pickle_kind kind); /* NULL on failure */
int mf_pickle_push(struct mf_machine *m, struct mf_pickle_node *x);
int mf_pickle_push_new(struct mf_machine *m, enum mf_pickle_kind kind, struct mf_pickle_node **x);
int mf_pickle_top(struct mf_machine *m, struct mf_pickle_node **x);
int mf_pickle_pop(struct mf_machine *m, struct mf_pickle_node **x);
/* The items above the last mark, which goes with them, or the last n: they stay at *items until the next push. */
int mf_pickle_pop_marked(struct mf_machine *m, struct mf_pickle_node ***items, size_t *n);
int mf_pickle_pop_last(struct mf_machine *m, size_t n, struct mf_pickle_node ***items);
int mf_pickle_append(struct mf_machine *m, struct mf_pickle_node *to, struct mf_pickle_node *const *items, size_t n);

/* The opcodes in groups: 0, negative, or 1 when the opcode is none of the group's. */
int mf_pickle_scalar(struct mf_machine *m, uint8_t op);
int mf_pickle_container(struct mf_machine *m, uint8_t op);
int mf_pickle_object(struct mf_machine *m, uint8_t op);

#endif
