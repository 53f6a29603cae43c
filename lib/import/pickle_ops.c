#include "import/pickle_priv.h"

#include <stdlib.h>
#include <string.h>

static int push_text(struct mf_machine *m, enum mf_pickle_kind kind, int length_bytes)
{
    struct mf_pickle_node *x;
    const uint8_t *p = NULL;
    uint64_t len;
    if (mf_pickle_take_number(m, length_bytes, &len) || mf_pickle_take(m, len, &p) || mf_pickle_push_new(m, kind, &x))
        return m->err->code;
    x->text = (const char *)p;
    x->len = len;
    return 0;
}

static int push_integer(struct mf_machine *m, int bytes, bool is_signed)
{
    struct mf_pickle_node *x;
    uint64_t v;
    if (mf_pickle_take_number(m, bytes, &v) || mf_pickle_push_new(m, MF_PICKLE_INT, &x))
        return m->err->code;
    int spare = 64 - 8 * bytes;
    x->integer = bytes == 0 ? 0 : is_signed ? (int64_t)(v << spare) >> spare : (int64_t)v;
    return 0;
}

static int push_long(struct mf_machine *m)
{
    uint64_t bytes;
    if (mf_pickle_take_number(m, 1, &bytes))
        return m->err->code;
    if (bytes <= 8)
        return push_integer(m, (int)bytes, true);
    m->at--;
    return push_text(m, MF_PICKLE_BYTES, 1);
}

static int push_bool(struct mf_machine *m, bool v)
{
    struct mf_pickle_node *x;
    int rc = mf_pickle_push_new(m, MF_PICKLE_BOOL, &x);
    if (!rc)
        x->integer = v;
    return rc;
}

static int push_float(struct mf_machine *m)
{
    struct mf_pickle_node *x;
    const uint8_t *p = NULL;
    uint64_t bits = 0;
    if (mf_pickle_take(m, 8, &p) || mf_pickle_push_new(m, MF_PICKLE_FLOAT, &x))
        return m->err->code;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    memcpy(&x->number, &bits, 8);
    return 0;
}

int mf_pickle_scalar(struct mf_machine *m, uint8_t op)
{
    struct mf_pickle_node *x;
    switch (op) {
    case 'N':
        return mf_pickle_push_new(m, MF_PICKLE_NONE, &x);
    case 0x88:
    case 0x89:
        return push_bool(m, op == 0x88);
    case 'K':
        return push_integer(m, 1, false);
    case 'M':
        return push_integer(m, 2, false);
    case 'J':
        return push_integer(m, 4, true);
    case 0x8a: /* LONG1 */
        return push_long(m);
    case 'G':
        return push_float(m);
    case 0x8c: /* SHORT_BINUNICODE */
        return push_text(m, MF_PICKLE_TEXT, 1);
    case 'X':
        return push_text(m, MF_PICKLE_TEXT, 4);
    case 0x8d: /* BINUNICODE8 */
        return push_text(m, MF_PICKLE_TEXT, 8);
    case 'U': /* Python 2's strings */
    case 'C':
        return push_text(m, MF_PICKLE_BYTES, 1);
    case 'T':
    case 'B':
        return push_text(m, MF_PICKLE_BYTES, 4);
    case 0x8e: /* BINBYTES8, BYTEARRAY8 */
    case 0x96:
        return push_text(m, MF_PICKLE_BYTES, 8);
    }
    return 1;
}

static int push_list(struct mf_machine *m, enum mf_pickle_kind kind, struct mf_pickle_node *const *items, size_t n)
{
    struct mf_pickle_node *x = mf_pickle_node(m, kind);
    return x ? mf_pickle_append(m, x, items, n) || mf_pickle_push(m, x) ? m->err->code : 0 : m->err->code;
}

static int push_marked(struct mf_machine *m, enum mf_pickle_kind kind)
{
    struct mf_pickle_node **items;
    size_t n;
    int rc = mf_pickle_pop_marked(m, &items, &n);
    return rc ? rc : push_list(m, kind, items, n);
}

static int push_tuple(struct mf_machine *m, size_t n)
{
    struct mf_pickle_node **items;
    int rc = mf_pickle_pop_last(m, n, &items);
    return rc ? rc : push_list(m, MF_PICKLE_TUPLE, items, n);
}

/* Into the list, the dictionary or the object below: the last `n` items, or (n 0) those above the mark. */
static int fill(struct mf_machine *m, bool pairs, size_t n)
{
    struct mf_pickle_node **items, *to;
    int rc = n ? mf_pickle_pop_last(m, n, &items) : mf_pickle_pop_marked(m, &items, &n);
    if (rc || (rc = mf_pickle_top(m, &to)))
        return rc;
    bool fits = to->kind == MF_PICKLE_OBJECT ? to->n == 0 || to->pairs == pairs
                                             : to->kind == (pairs ? MF_PICKLE_DICT : MF_PICKLE_LIST);
    if (!fits || (pairs && n % 2))
        return mf_pickle_wrong(m, "something is put into what does not hold it");
    to->pairs = pairs;
    return mf_pickle_append(m, to, items, n);
}

int mf_pickle_container(struct mf_machine *m, uint8_t op)
{
    struct mf_pickle_node *x;
    switch (op) {
    case '(':
        return mf_pickle_push(m, NULL);
    case ']':
    case 0x8f: /* EMPTY_SET */
        return mf_pickle_push_new(m, MF_PICKLE_LIST, &x);
    case '}':
        return mf_pickle_push_new(m, MF_PICKLE_DICT, &x);
    case ')':
        return mf_pickle_push_new(m, MF_PICKLE_TUPLE, &x);
    case 't':
        return push_marked(m, MF_PICKLE_TUPLE);
    case 'l':
    case 0x91: /* FROZENSET */
        return push_marked(m, MF_PICKLE_LIST);
    case 0x85: /* TUPLE1 .. 3 */
    case 0x86:
    case 0x87:
        return push_tuple(m, op - 0x84u);
    case 'a':
        return fill(m, false, 1);
    case 'e':
    case 0x90: /* ADDITEMS */
        return fill(m, false, 0);
    case 's':
        return fill(m, true, 2);
    case 'u':
        return fill(m, true, 0);
    }
    return 1;
}

static int take_line(struct mf_machine *m, const char **text, size_t *len)
{
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end)
        return mf_pickle_wrong(m, "it is cut");
    *text = (const char *)m->at;
    *len = (size_t)(end - m->at);
    m->at = end + 1;
    return 0;
}

static int push_global(struct mf_machine *m, const char *module, size_t n_module, const char *name, size_t n_name)
{
    struct mf_pickle_node *x;
    int rc = mf_pickle_push_new(m, MF_PICKLE_GLOBAL, &x);
    if (rc)
        return rc;
    if (!(x->own = malloc(n_module + n_name + 1)))
        return mf_pickle_no_memory(m);
    memcpy(x->own, module, n_module);
    x->own[n_module] = '.';
    memcpy(x->own + n_module + 1, name, n_name);
    x->text = x->own;
    x->len = n_module + 1 + n_name;
    return 0;
}

static int global(struct mf_machine *m)
{
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    int rc = take_line(m, &module, &n_module);
    if (!rc)
        rc = take_line(m, &name, &n_name);
    return rc ? rc : push_global(m, module, n_module, name, n_name);
}

static int stack_global(struct mf_machine *m)
{
    struct mf_pickle_node *module, *name;
    if (mf_pickle_pop(m, &name) || mf_pickle_pop(m, &module))
        return m->err->code;
    if (name->kind != MF_PICKLE_TEXT || module->kind != MF_PICKLE_TEXT)
        return mf_pickle_wrong(m, "a global has no name");
    return push_global(m, module->text, module->len, name->text, name->len);
}

/* The object that a call would return. */
static int call(struct mf_machine *m, bool keywords)
{
    struct mf_pickle_node *x, *what, *args, *more;
    if ((keywords && mf_pickle_pop(m, &more)) || mf_pickle_pop(m, &args) || mf_pickle_pop(m, &what) ||
        mf_pickle_push_new(m, MF_PICKLE_OBJECT, &x))
        return m->err->code;
    x->text = what->text;
    x->len = what->text ? what->len : 0;
    x->args = args->kind == MF_PICKLE_TUPLE ? args : NULL;
    return 0;
}

static int persistent(struct mf_machine *m)
{
    static const char text[] = "persistent id";
    struct mf_pickle_node *x, *args;
    if (mf_pickle_pop(m, &args) || mf_pickle_push_new(m, MF_PICKLE_OBJECT, &x))
        return m->err->code;
    x->text = text;
    x->len = sizeof text - 1;
    x->args = args->kind == MF_PICKLE_TUPLE ? args : NULL;
    return 0;
}

static int build(struct mf_machine *m)
{
    struct mf_pickle_node *x, *state;
    if (mf_pickle_pop(m, &state) || mf_pickle_top(m, &x))
        return m->err->code;
    x->state = state;
    return 0;
}

int mf_pickle_object(struct mf_machine *m, uint8_t op)
{
    switch (op) {
    case 'c':
        return global(m);
    case 0x93:
        return stack_global(m);
    case 'R':
    case 0x81: /* NEWOBJ */
        return call(m, false);
    case 0x92: /* NEWOBJ_EX */
        return call(m, true);
    case 'b':
        return build(m);
    case 'Q':
        return persistent(m);
    }
    return 1;
}
