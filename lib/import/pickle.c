#include "import/pickle_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES_MAX = 1 << 22,
    NODES_FREE = 1 << 16,
    NODES_A_BYTE = 8,    /* and so many more for a byte of the file */
    LINKS_MAX = 1 << 24, /* from containers to what they hold */
    STACK_MAX = 1 << 22,
    CHUNK = 512,
};

struct mf_chunk {
    struct mf_chunk *next;
    size_t n;
    struct mf_pickle_node node[CHUNK];
};

int mf_pickle_wrong(struct mf_machine *m, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mf_err_set(m->err, MF_EFORMAT, "the pickle of %.200s is not one that can be read: %s at byte %zu of %zu",
                      m->path, text, (size_t)(m->at - m->begin), (size_t)(m->end - m->begin));
}

int mf_pickle_no_memory(struct mf_machine *m)
{
    return mf_err_set(m->err, MF_ENOMEM, "cannot allocate the pickle of %s", m->path);
}

/* ---- bytes ---- */

int mf_pickle_take(struct mf_machine *m, size_t n, const uint8_t **p)
{
    if (n > (size_t)(m->end - m->at))
        return mf_pickle_wrong(m, "it is cut");
    *p = m->at;
    m->at += n;
    return 0;
}

int mf_pickle_take_number(struct mf_machine *m, int bytes, uint64_t *v)
{
    const uint8_t *p = NULL;
    int rc = mf_pickle_take(m, (size_t)bytes, &p);
    *v = 0;
    while (!rc && bytes--)
        *v = *v << 8 | p[bytes];
    return rc;
}

/* ---- nodes ---- */

struct mf_pickle_node *mf_pickle_node(struct mf_machine *m, enum mf_pickle_kind kind)
{
    struct mf_pickle *o = m->out;
    if (o->n_nodes == m->most) {
        mf_pickle_wrong(m, "it makes more than %zu things", m->most);
        return NULL;
    }
    if (!o->chunks || o->chunks->n == CHUNK) {
        struct mf_chunk *c = malloc(sizeof *c);
        if (!c) {
            mf_pickle_no_memory(m);
            return NULL;
        }
        c->next = o->chunks;
        c->n = 0;
        o->chunks = c;
    }
    o->n_nodes++;
    struct mf_pickle_node *x = &o->chunks->node[o->chunks->n++];
    *x = (struct mf_pickle_node){.kind = kind};
    return x;
}

int mf_pickle_push(struct mf_machine *m, struct mf_pickle_node *x)
{
    if (m->n == m->room) {
        size_t room = m->room ? 2 * m->room : 256;
        struct mf_pickle_node **stack = room <= STACK_MAX ? realloc(m->stack, room * sizeof *stack) : NULL;
        if (!stack)
            return room > STACK_MAX ? mf_pickle_wrong(m, "its stack grows beyond %d", STACK_MAX)
                                    : mf_pickle_no_memory(m);
        m->stack = stack;
        m->room = room;
    }
    m->stack[m->n++] = x;
    return 0;
}

int mf_pickle_push_new(struct mf_machine *m, enum mf_pickle_kind kind, struct mf_pickle_node **x)
{
    *x = mf_pickle_node(m, kind);
    return *x ? mf_pickle_push(m, *x) : m->err->code;
}

int mf_pickle_top(struct mf_machine *m, struct mf_pickle_node **x)
{
    *x = m->n ? m->stack[m->n - 1] : NULL;
    return *x ? 0 : mf_pickle_wrong(m, "something is taken from where nothing is");
}

int mf_pickle_pop(struct mf_machine *m, struct mf_pickle_node **x)
{
    int rc = mf_pickle_top(m, x);
    m->n -= rc == 0;
    return rc;
}

int mf_pickle_pop_marked(struct mf_machine *m, struct mf_pickle_node ***items, size_t *n)
{
    size_t at = m->n;
    while (at && m->stack[at - 1])
        at--;
    if (!at)
        return mf_pickle_wrong(m, "a mark is missing");
    *items = m->stack + at;
    *n = m->n - at;
    m->n = at - 1;
    return 0;
}

int mf_pickle_pop_last(struct mf_machine *m, size_t n, struct mf_pickle_node ***items)
{
    for (size_t i = 1; i <= n; i++)
        if (i > m->n || !m->stack[m->n - i])
            return mf_pickle_wrong(m, "something is taken from where nothing is");
    m->n -= n;
    *items = m->stack + m->n;
    return 0;
}

int mf_pickle_append(struct mf_machine *m, struct mf_pickle_node *to, struct mf_pickle_node *const *items, size_t n)
{
    if (m->out->n_links + n > LINKS_MAX)
        return mf_pickle_wrong(m, "its containers hold more than %d things", LINKS_MAX);
    if (to->n + n > to->room) {
        size_t room = to->n + n > 2 * to->room ? to->n + n : 2 * to->room;
        struct mf_pickle_node **item = realloc(to->item, room * sizeof *item);
        if (!item)
            return mf_pickle_no_memory(m);
        to->item = item;
        to->room = room;
    }
    if (n)
        memcpy(to->item + to->n, items, n * sizeof *items);
    to->n += n;
    m->out->n_links += n;
    return 0;
}

static int put(struct mf_machine *m, uint64_t i)
{
    struct mf_pickle_node *x;
    int rc = mf_pickle_top(m, &x);
    if (rc)
        return rc;
    if (i >= m->n_memo) {
        size_t room = 2 * i < 256 ? 256 : 2 * i;
        struct mf_pickle_node **memo = i > NODES_MAX ? NULL : realloc(m->memo, room * sizeof *memo);
        if (!memo)
            return i > NODES_MAX ? mf_pickle_wrong(m, "it remembers more than %d things", NODES_MAX)
                                 : mf_pickle_no_memory(m);
        memset(memo + m->n_memo, 0, (room - m->n_memo) * sizeof *memo);
        m->memo = memo;
        m->n_memo = room;
    }
    m->n_known += m->memo[i] == NULL;
    m->memo[i] = x;
    return 0;
}

static int get(struct mf_machine *m, uint64_t i)
{
    if (i >= m->n_memo || !m->memo[i])
        return mf_pickle_wrong(m, "it recalls number %ju, which it never remembered", (uintmax_t)i);
    return mf_pickle_push(m, m->memo[i]);
}

static int memory(struct mf_machine *m, uint8_t op)
{
    uint64_t i;
    switch (op) {
    case 'q':
        return mf_pickle_take_number(m, 1, &i) ? m->err->code : put(m, i);
    case 'r':
        return mf_pickle_take_number(m, 4, &i) ? m->err->code : put(m, i);
    case 0x94: /* MEMOIZE */
        return put(m, m->n_known);
    case 'h':
        return mf_pickle_take_number(m, 1, &i) ? m->err->code : get(m, i);
    case 'j':
        return mf_pickle_take_number(m, 4, &i) ? m->err->code : get(m, i);
    }
    return 1;
}

static int bookkeeping(struct mf_machine *m, uint8_t op)
{
    struct mf_pickle_node *x, **items;
    uint64_t v;
    size_t n;
    switch (op) {
    case 0x80: /* PROTO */
        if (mf_pickle_take_number(m, 1, &v))
            return m->err->code;
        return v >= 2 && v <= 5 ? 0 : mf_pickle_wrong(m, "it is of protocol %d, and 2 to 5 are read", (int)v);
    case 0x95: /* FRAME: how many bytes follow; they are all here */
        return mf_pickle_take_number(m, 8, &v);
    case '0':
        return mf_pickle_pop(m, &x);
    case '1':
        return mf_pickle_pop_marked(m, &items, &n);
    case '2':
        return mf_pickle_top(m, &x) ? m->err->code : mf_pickle_push(m, x);
    }
    return 1;
}

static int run(struct mf_machine *m)
{
    static int (*const groups[])(struct mf_machine *, uint8_t) = {memory, mf_pickle_scalar, mf_pickle_container,
                                                                  mf_pickle_object, bookkeeping};
    uint64_t op = 0;
    for (;;) {
        int rc = mf_pickle_take_number(m, 1, &op);
        if (rc || op == '.')
            return rc;
        rc = 1;
        for (size_t i = 0; i < sizeof groups / sizeof *groups && rc == 1; i++)
            rc = groups[i](m, (uint8_t)op);
        if (rc)
            return rc < 0 ? rc
                          : mf_pickle_wrong(m, "the opcode 0x%02x, which PyTorch does not write, stands", (unsigned)op);
    }
}

int mf_pickle_parse(struct mf_pickle *p, const void *bytes, size_t size, size_t held, const char *path,
                    struct mf_err *err)
{
    struct mf_machine m = {.begin = bytes, .at = bytes, .path = path, .out = p, .err = err};
    m.most = held < (NODES_MAX - NODES_FREE) / NODES_A_BYTE ? NODES_FREE + NODES_A_BYTE * held : NODES_MAX;
    struct mf_pickle_node *root = NULL;
    m.end = m.begin + size;
    *p = (struct mf_pickle){0};
    int rc = size > MF_PICKLE_MAX
                 ? mf_pickle_wrong(&m, "it has more than the %d bytes that are read, beginning", MF_PICKLE_MAX)
                 : run(&m);
    if (!rc)
        rc = mf_pickle_pop(&m, &root);
    free(m.stack);
    free(m.memo);
    p->root = root;
    p->size = (size_t)(m.at - m.begin);
    if (rc)
        mf_pickle_release(p);
    return rc;
}

void mf_pickle_release(struct mf_pickle *p)
{
    for (struct mf_chunk *c; (c = p->chunks);) {
        for (size_t i = 0; i < c->n; i++) {
            free(c->node[i].item);
            free(c->node[i].own);
        }
        p->chunks = c->next;
        free(c);
    }
    *p = (struct mf_pickle){0};
}

bool mf_node_is(const struct mf_pickle_node *x, enum mf_pickle_kind kind, const char *text)
{
    return x && x->kind == kind && x->len == strlen(text) && !memcmp(x->text, text, x->len);
}

const struct mf_pickle_node *mf_node_get(const struct mf_pickle_node *x, const char *key)
{
    for (size_t i = 0; x && x->pairs && i + 1 < x->n && i < 2 * 64; i += 2)
        if (mf_node_is(x->item[i], MF_PICKLE_TEXT, key))
            return x->item[i + 1];
    return NULL;
}
