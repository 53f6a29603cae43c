/* Crews: every part of every job runs once, before its leader continues, on any free worker. */
#include <string.h>

#include "cpu/crew.h"
#include "base/workers.h"
#include "tap.h"

enum { JOBS = 3000, MOST = 64 };

struct job {
    int parts;
    atomic_int made[MOST];
};

struct yard {
    struct mf_crew crew;
    int leaders;
    atomic_int wrong, shared, foreign; /* jobs not made once; in parts; parts that another than the leader made */
    struct job job[4];
};

struct order {
    struct yard *y;
    struct job *j;
    int leader;
};

static void make(void *arg, int part, int parts, int worker)
{
    const struct order *o = arg;
    if (part == 0)
        o->j->parts = parts;
    atomic_fetch_add(&o->j->made[part], 1);
    atomic_fetch_add(&o->y->foreign, worker != o->leader);
}

static void work(void *arg, int worker)
{
    struct yard *y = arg;
    for (int i = 0; worker < y->leaders && i < JOBS; i++) {
        struct order o = {y, &y->job[worker], worker};
        memset(o.j, 0, sizeof *o.j);
        mf_crew_share(&y->crew, worker, 3, make, &o);
        for (int p = 0; p < MOST; p++)
            atomic_fetch_add(&y->wrong, atomic_load(&o.j->made[p]) != (p < o.j->parts));
        atomic_fetch_add(&y->shared, o.j->parts > 1);
    }
    if (worker < y->leaders)
        mf_crew_end(&y->crew);
    mf_crew_help(&y->crew, worker);
}

static void jobs(int workers, int leaders)
{
    struct yard y = {.leaders = leaders};
    struct mf_workers *w;
    struct mf_err err;
    if (!ok(mf_workers_new(&w, workers, &err) == 0, "%d workers", workers))
        return;
    mf_crew_start(&y.crew, workers, leaders);
    mf_workers_run(w, work, &y);
    ok(y.wrong == 0, "%d of %d workers lead: %d jobs of %d in parts, %d parts by others, each once", leaders, workers,
       atomic_load(&y.shared), leaders * JOBS, atomic_load(&y.foreign));
    ok(leaders == workers || y.shared > 0, "free workers share jobs");
    mf_workers_free(w);
}

int main(void)
{
    for (int workers = 1; workers <= 4; workers++)
        for (int leaders = 1; leaders <= workers; leaders++)
            jobs(workers, leaders);
    return done();
}
