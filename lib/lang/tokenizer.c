#include "lang/tokenizer.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

enum { TEXT_MAX = 1 << 24 }; /* bytes */

struct symbol {
    uint32_t at, n;     /* its bytes; n 0: merged into another */
    int32_t id;         /* -1: no piece */
    int32_t prev, next; /* -1: none */
};

struct merge {
    float score;
    int32_t left; /* symbol, merged with the next one */
    uint32_t n;   /* bytes of both: else one of them has changed */
    int32_t id;   /* of what they make */
};

struct encoding {
    const struct mf_tokenizer *t;
    char *text; /* escaped */
    struct symbol *sym;
    struct merge *heap; /* the best one first; at most two more for each of the first n - 1 */
    int n, n_heap;
};

/* ---- the best merge first ---- */

static bool before(const struct merge *a, const struct merge *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void push(struct encoding *e, struct merge m)
{
    int i = e->n_heap++;
    for (; i > 0 && before(&m, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = m;
}

static struct merge pop(struct encoding *e)
{
    const struct merge top = e->heap[0], last = e->heap[--e->n_heap];
    int i = 0;
    for (int child; (child = 2 * i + 1) < e->n_heap; i = child) {
        child += child + 1 < e->n_heap && before(&e->heap[child + 1], &e->heap[child]);
        if (!before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return top;
}

/* ---- symbols ---- */

/* Copies the text with U+2581 for spaces and U+FFFD for malformed bytes. */
static uint32_t escape(const char *text, size_t n, char *to)
{
    char *const start = to;
    for (size_t i = 0, len; i < n; i += len) {
        const size_t good = mf_utf8(text + i, n - i);
        const char *from = !good ? "\xef\xbf\xbd" : text[i] == ' ' ? "\xe2\x96\x81" : text + i;
        const size_t bytes = from == text + i ? good : 3;
        len = good ? good : 1;
        memcpy(to, from, bytes);
        to += bytes;
    }
    return (uint32_t)(to - start);
}

/* The longest user-defined piece that begins the n bytes; -1: none does. Those that agree so far are user[low, high).
 */
static int32_t user_piece(const struct mf_tokenizer *t, const char *text, uint32_t n)
{
    int32_t low = t->user_of[(uint8_t)*text], high = t->user_of[(uint8_t)*text + 1], found = -1;
    for (uint32_t k = 1; low < high; k++) {
        if (t->piece[t->user[low]].n == k)
            found = t->user[low++];
        if (k == n)
            break;
        while (low < high && (uint8_t)t->piece[t->user[low]].text[k] < (uint8_t)text[k])
            low++;
        while (low < high && (uint8_t)t->piece[t->user[high - 1]].text[k] > (uint8_t)text[k])
            high--;
    }
    return found;
}

static void cut(struct encoding *e, uint32_t bytes)
{
    const struct mf_tokenizer *t = e->t;
    for (uint32_t at = 0, n; at < bytes; at += n) {
        int32_t id = user_piece(t, e->text + at, bytes - at);
        n = id < 0 ? (uint32_t)mf_utf8(e->text + at, bytes - at) : t->piece[id].n;
        e->sym[e->n] = (struct symbol){at, n, id < 0 ? mf_tokenizer_find(t, e->text + at, n) : id, e->n - 1, e->n + 1};
        e->n++;
    }
    if (e->n)
        e->sym[e->n - 1].next = -1;
}

static bool merges(const struct encoding *e, int32_t i)
{
    return e->sym[i].id < 0 || e->t->piece[e->sym[i].id].type == MF_PIECE_NORMAL;
}

static void consider(struct encoding *e, int32_t left)
{
    const struct symbol *l = &e->sym[left];
    if (left < 0 || l->next < 0 || !merges(e, left) || !merges(e, l->next))
        return;
    const uint32_t n = l->n + e->sym[l->next].n;
    const int32_t id = n <= e->t->longest ? mf_tokenizer_find(e->t, e->text + l->at, n) : -1;
    if (id >= 0 && e->t->piece[id].type == MF_PIECE_NORMAL)
        push(e, (struct merge){e->t->piece[id].score, left, n, id});
}

static void merge_all(struct encoding *e)
{
    for (int32_t i = 0; i + 1 < e->n; i++)
        consider(e, i);
    while (e->n_heap) {
        const struct merge m = pop(e);
        struct symbol *l = &e->sym[m.left];
        if (l->n == 0 || l->next < 0 || l->n + e->sym[l->next].n != m.n)
            continue;
        struct symbol *r = &e->sym[l->next];
        l->n = m.n;
        l->id = m.id;
        l->next = r->next;
        r->n = 0;
        if (l->next >= 0)
            e->sym[l->next].prev = m.left;
        consider(e, l->prev);
        consider(e, m.left);
    }
}

static int put(const struct encoding *e, int32_t *ids, int max)
{
    int n = 0;
    for (int32_t i = e->n ? 0 : -1; i >= 0; i = e->sym[i].next) {
        const struct symbol *s = &e->sym[i];
        const uint32_t parts = s->id < 0 ? s->n : 1;
        for (uint32_t k = 0; k < parts; k++, n++)
            if (n < max)
                ids[n] = s->id < 0 ? e->t->byte[(uint8_t)e->text[s->at + k]] : s->id;
    }
    return n;
}

static void place(struct encoding *e, size_t n, struct mf_arena *a)
{
    e->heap = mf_arena_take(a, 3 * n, sizeof *e->heap);
    e->sym = mf_arena_take(a, n, sizeof *e->sym);
    e->text = mf_arena_take(a, 3 * n, 1);
}

int mf_tokenizer_encode(const struct mf_tokenizer *t, const char *text, int32_t *ids, int max, struct mf_err *err)
{
    const size_t bytes = strlen(text);
    struct encoding e = {.t = t};
    struct mf_arena a = {0};
    if (bytes > TEXT_MAX)
        return mf_err_set(err, MF_EUSAGE, "a text of %zu bytes; %d are possible", bytes, TEXT_MAX);
    place(&e, bytes, &a);
    int rc = mf_arena_alloc(&a, "the tokens of a text", err);
    if (rc)
        return rc;
    place(&e, bytes, &a);
    cut(&e, escape(text, bytes, e.text));
    merge_all(&e);
    rc = put(&e, ids, max);
    mf_arena_release(&a);
    return rc;
}
