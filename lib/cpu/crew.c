/* A leader goes on when all parts that were taken have finished. A helper that comes late finds no part left, so that
 * no leader waits for it.
 */
#include "cpu/crew.h"

#include <sched.h>

enum { PATIENCE = 1000 }; /* polls before a worker yields its core */

static unsigned parts_of(unsigned turn)
{
    return turn >> 16;
}

static unsigned part_of(unsigned turn)
{
    return turn & 0xffff;
}

void mf_crew_start(struct mf_crew *c, int workers, int leaders)
{
    c->workers = workers;
    atomic_init(&c->leaders, leaders);
    atomic_flag_clear(&c->led);
    atomic_init(&c->turn, 0);
    atomic_init(&c->left, 0);
}

bool mf_crew_helps(struct mf_crew *c)
{
    return atomic_load(&c->leaders) < c->workers;
}

/* Does the next part, where one is left. */
static bool take(struct mf_crew *c, int worker)
{
    unsigned now = atomic_load(&c->turn);
    if (part_of(now) >= parts_of(now))
        return false;
    now = atomic_fetch_add(&c->turn, 1);
    if (part_of(now) >= parts_of(now))
        return false;
    c->fn(c->arg, (int)part_of(now), (int)parts_of(now), worker);
    atomic_fetch_sub(&c->left, 1);
    return true;
}

static void wait_a_little(int *looks)
{
    if (*looks < PATIENCE) {
        ++*looks;
        __builtin_ia32_pause();
    } else
        sched_yield();
}

void mf_crew_share(struct mf_crew *c, int worker, int over, mf_part *fn, void *arg)
{
    if (!mf_crew_helps(c) || atomic_flag_test_and_set(&c->led)) {
        fn(arg, 0, 1, worker);
        return;
    }
    int parts = (c->workers - atomic_load(&c->leaders) + 1) * over;
    c->fn = fn;
    c->arg = arg;
    atomic_store(&c->left, parts);
    atomic_store(&c->turn, (unsigned)parts << 16);
    while (take(c, worker))
        continue;
    for (int looks = 0; atomic_load(&c->left) > 0;)
        wait_a_little(&looks);
    atomic_flag_clear(&c->led);
}

void mf_crew_end(struct mf_crew *c)
{
    atomic_fetch_sub(&c->leaders, 1);
}

void mf_crew_help(struct mf_crew *c, int worker)
{
    for (int looks = 0; atomic_load(&c->leaders) > 0;)
        if (take(c, worker))
            looks = 0;
        else
            wait_a_little(&looks);
}
