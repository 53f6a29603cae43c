/* move.c - things that move from ranks to ranks: one message from each to each, since many small ones take long. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "ranks/ranks.h"

enum { AT_ONCE = 1 << 20 /* bytes of each rank: they stay in a cache, and take little memory */ };

struct moving {
    size_t bytes;
    int me, n;              /* ranks */
    size_t *to, *from, *at; /* (n + 1) by rank: the first byte that goes to it, that comes from it; a cursor */
    char *gives, *gets;
};

static void lay_out(struct moving *m, const struct mf_ranks_move *move, size_t n)
{
    memset(m->to, 0, (size_t)(m->n + 1) * sizeof *m->to);
    memset(m->from, 0, (size_t)(m->n + 1) * sizeof *m->from);
    for (size_t i = 0; i < n; i++) {
        const struct mf_ranks_move *x = &move[i];
        m->to[x->to + 1] += x->from == m->me && x->to != m->me ? m->bytes : 0;
        m->from[x->from + 1] += x->to == m->me && x->from != m->me ? m->bytes : 0;
    }
    for (int k = 0; k < m->n; k++) {
        m->to[k + 1] += m->to[k];
        m->from[k + 1] += m->from[k];
    }
}

/* Things lie in messages as in the list, whose order is the same at both ends. */
static char *next(struct moving *m, char *base, int rank)
{
    m->at[rank] += m->bytes;
    return base + m->at[rank] - m->bytes;
}

static int move_some(struct mf_ranks *r, struct moving *m, const struct mf_ranks_move *move, size_t n,
                     struct mf_err *err)
{
    const size_t size = (size_t)m->n * sizeof *m->at;
    lay_out(m, move, n);
    int rc = mf_alloc((void **)&m->gives, m->to[m->n] + m->from[m->n], "what ranks exchange", err);
    if (rc)
        return rc;
    m->gets = m->gives + m->to[m->n];
    memcpy(m->at, m->to, size);
    for (const struct mf_ranks_move *x = move; x < move + n; x++)
        if (x->from == m->me)
            memcpy(x->to == m->me ? x->gets : next(m, m->gives, x->to), x->has, m->bytes);
    rc = mf_ranks_swap(r, m->gives, m->to, m->gets, m->from, err);
    memcpy(m->at, m->from, size);
    for (const struct mf_ranks_move *x = move; rc == 0 && x < move + n; x++)
        if (x->to == m->me && x->from != m->me)
            memcpy(x->gets, next(m, m->gets, x->from), m->bytes);
    free(m->gives);
    return rc;
}

int mf_ranks_move(struct mf_ranks *r, const struct mf_ranks_move *move, size_t n, size_t bytes, struct mf_err *err)
{
    const size_t ranks = (size_t)mf_ranks_count(r), most = bytes < AT_ONCE ? ranks * AT_ONCE / bytes : ranks;
    struct moving m = {.bytes = bytes, .me = mf_ranks_me(r), .n = (int)ranks};
    int rc = 0;
    if (!r)
        return 0;
    m.to = mf_xcalloc(3 * (ranks + 1), sizeof *m.to);
    m.from = m.to + ranks + 1;
    m.at = m.from + ranks + 1;
    for (size_t i = 0; rc == 0 && i < n; i += most)
        rc = move_some(r, &m, move + i, mf_smaller(n - i, most), err);
    free(m.to);
    return rc;
}
