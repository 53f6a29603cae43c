/* team.c - one operation by all workers.
 *
 * A turn names the node that is being divided, into how many parts, and the next part. Who takes a part ends it before
 * the leader goes on; who comes late finds none left, so that a worker that has not come yet delays no node. Parts are
 * columns, heads or rows of a result: its bits do not depend on who made them.
 */
#include <sched.h>

#include "graph/plan_priv.h"

enum {
    LARGE = 1 << 16, /* floats of a result that is cut finer than workers: one core may be slower than another */
    OVER = 1 << 30,  /* no node: the end */
    PATIENCE = 1000, /* looks before the core is offered to others */
};

static uint64_t turn(int node, int parts)
{
    return (uint64_t)node << 32 | (uint64_t)parts << 16;
}

static int node_of(uint64_t turn)
{
    return (int)(turn >> 32);
}

static int parts_of(uint64_t turn)
{
    return turn >> 16 & 0xffff;
}

static int part_of(uint64_t turn)
{
    return turn & 0xffff;
}

void mf_team_start(struct mf_team *t, struct mf_plan *p)
{
    t->p = p;
    atomic_init(&t->turn, turn(0, 0));
    atomic_init(&t->left, 0);
}

/* Makes the next part, where one is left. */
static bool take(struct mf_team *t, int w)
{
    uint64_t now = atomic_load(&t->turn);
    if (part_of(now) >= parts_of(now))
        return false;
    now = atomic_fetch_add(&t->turn, 1);
    if (part_of(now) >= parts_of(now))
        return false;
    struct mf_plan *p = t->p;
    struct mf_call mine = p->call[0][node_of(now)];
    mine.part = part_of(now);
    mine.parts = parts_of(now);
    mine.work = p->call[w][node_of(now)].work;
    p->e->dev.ops->op[p->g->node[node_of(now)].op].forward(&mine, t->n);
    atomic_fetch_sub(&t->left, 1);
    return true;
}

static void wait_a_little(int *looks)
{
    if (++*looks < PATIENCE)
        __builtin_ia32_pause();
    else
        sched_yield();
}

void mf_team_forward(struct mf_team *t, int node, int n)
{
    const struct mf_tensor *y = &t->p->call[0][node].y;
    bool large = mf_tile_rows(y, n) * y->cols >= LARGE;
    int parts = mf_workers_count(t->p->e->workers) * (large ? 4 : 1);
    t->n = n;
    atomic_store(&t->left, parts);
    atomic_store(&t->turn, turn(node, parts));
    while (take(t, 0))
        continue;
    for (int looks = 0; atomic_load(&t->left) > 0;)
        wait_a_little(&looks);
}

void mf_team_end(struct mf_team *t)
{
    atomic_store(&t->turn, turn(OVER, 0));
}

void mf_team_help(struct mf_team *t, int w)
{
    for (int looks = 0; node_of(atomic_load(&t->turn)) != OVER;)
        if (take(t, w))
            looks = 0;
        else
            wait_a_little(&looks);
}
