/* Estimated memory: of a plan against the memory of its runs, of the machine from its files, and the messages. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/workers.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "tap.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SHADOWED = 1 };
#else
enum { SHADOWED = 0 };
#endif

enum { WIDE = 1024, ROWS = 300 };
static float rows[ROWS * WIDE];

static double resident_mib(void)
{
    long all = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    fclose(f);
    return (double)(pages * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/* Two layers of 4 MiB each. */
static struct mf_val build(struct mf_graph *g, struct mf_params *ps)
{
    struct mf_val x = mf_input(g, 1, WIDE), y = x;
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.weight", i);
        int W = mf_param_add(ps, name, WIDE, WIDE, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, .01f);
        y = mf_linear(g, y, W, 0, -1, MF_NONE, MF_NONE, MF_ACT_RELU);
    }
    mf_loss(g, mf_mse(g, y, mf_detach(g, x), mf_input(g, 1, 1)), 1);
    return x;
}

static void plans(size_t n, bool backward)
{
    struct mf_engine *e;
    struct mf_plan *outline, *p;
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_graph *g = mf_graph_new(&ps);
    struct mf_val x = build(g, &ps), weight = {x.id + 1};
    struct mf_memory said = {.beside = NULL};
    const struct mf_plan_opts opts = {.backward = backward};
    while (mf_is_shared(g, weight) || mf_rows(g, weight) != 1 || mf_cols(g, weight) != 1)
        weight.id++;
    mf_engine_open(&e, "cpu", 2, MF_FP32, &err);
    double before = resident_mib();
    ok(mf_plan_new(&outline, e, g, &opts, &err) == 0 && (SHADOWED || resident_mib() - before < 1),
       "a plan without values takes nothing");
    mf_plan_memory(outline, n, &said);
    const struct mf_feed feeds[] = {{x, rows, WIDE, false}, {weight, rows, 1, false}};
    ok(mf_plan_run(outline, &(struct mf_batch){.n = n, .feed = feeds, .n_feeds = 2}, &err) == MF_EUSAGE,
       "and does not run: %s", err.text);
    mf_plan_free(outline);

    mf_params_alloc(&ps, &err);
    mf_params_fresh(&ps, 1);
    before = resident_mib();
    if (mf_plan_new(&p, e, g, &opts, &err) ||
        mf_plan_run(p, &(struct mf_batch){.n = n, .feed = feeds, .n_feeds = 2}, &err))
        ok(0, "%s", err.text);
    double took = resident_mib() - before, need = mf_memory_sum(&said) / (1 << 20);
    if (SHADOWED)
        skip("memory of a run", "a sanitizer keeps its own");
    else
        ok(took > .9 * need - 2 && took < 1.1 * need + 2, "%zu samples %s: %.1f MiB estimated, %.1f used", n,
           backward ? "and back" : "forward", need, took);
    mf_plan_free(p);
    mf_engine_close(e);
    mf_graph_free(g);
    mf_params_release(&ps);
}

/* ---- the machine ---- */

static char root[] = "/tmp/mf_memory_XXXXXX";

static void put(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(full, 0777);
    }
    FILE *f = fopen(full, "w");
    fputs(text, f);
    fclose(f);
}

static void machines(void)
{
    struct mf_machine_memory m = mf_machine_memory("/nowhere");
    ok(m.total == SIZE_MAX && m.available == SIZE_MAX, "a machine that does not say has no end");
    put("proc/meminfo", "MemTotal:  8000 kB\nMemFree: 100 kB\nMemAvailable:   6000 kB\n");
    m = mf_machine_memory(root);
    ok(m.total == 8000 << 10 && m.available == 6000 << 10, "the available part of all memory");
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "5\n");
    m = mf_machine_memory(root);
    ok(m.total == 8000 << 10, "a group without a limit");
    put("sys/fs/cgroup/a/memory.max", "2048000\n");
    put("sys/fs/cgroup/a/memory.current", "1024000\n");
    put("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 24000\n");
    m = mf_machine_memory(root);
    ok(m.total == 2048000 && m.available == 1048000, "the limit of the group above: %zu of %zu", m.available, m.total);
    put("proc/self/cgroup", "5:cpu:/x\n4:memory:/elsewhere\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5096000\n");
    m = mf_machine_memory(root);
    ok(m.total == 4096000 && m.available == 0, "version 1, in a container: %zu of %zu", m.available, m.total);
}

/* Of this process, whose affinity is left to one core at the end. */
static void processors(void)
{
    cpu_set_t one;
    const int all = mf_cpus("/nowhere"), quota = all > 1 ? all - 1 : 1;
    char text[64];
    ok(all >= 1 && all == mf_cpus(root), "%d processors, where no group has a quota", all);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    ok(mf_cpus(root) == all, "a group whose quota is max");
    snprintf(text, sizeof text, "%d 100000\n", quota * 100000 - 50000);
    put("sys/fs/cgroup/a/cpu.max", text);
    ok(mf_cpus(root) == quota, "the quota of the group above, rounded up: %d", mf_cpus(root));
    put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    ok(mf_cpus(root) == 1, "half a processor is one");
    put("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/job/step\n0::/\n");
    put("sys/fs/cgroup/cpu/job/step/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/job/step/cpu.cfs_period_us", "100000\n");
    ok(mf_cpus(root) == all, "version 1 without a quota");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "20000\n");
    put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    ok(mf_cpus(root) == 1, "version 1 with one");
    sched_getaffinity(0, sizeof one, &one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &one) && seen++)
            CPU_CLR(cpu, &one);
    ok(sched_setaffinity(0, sizeof one, &one) == 0 && mf_cpus("/nowhere") == 1, "taskset leaves one");
    struct mf_workers *w;
    struct mf_err err;
    ok(mf_workers_new(&w, 0, &err) == 0 && mf_workers_count(w) == 1, "and so many are threads=0");
    mf_workers_free(w);
}

static void sentences(void)
{
    struct mf_memory n = {.of = {[MF_MEMORY_WEIGHTS] = 1 << 30, [MF_MEMORY_ROWS] = 3.0 * (1 << 30)},
                          .keys = {[MF_MEMORY_WEIGHTS] = "policy.hidden", [MF_MEMORY_ROWS] = "training.num_envs"}};
    struct mf_err err = {0};
    ok(mf_memory_say(&n, &(struct mf_machine_memory){SIZE_MAX, SIZE_MAX}, &err) == 0,
       "an estimate that fits is logged");
    ok(mf_memory_say(&n, &(struct mf_machine_memory){(size_t)5 << 30, 1 << 30}, &err) == 0,
       "beyond the free memory, but not beyond all: a warning");
    ok(mf_memory_say(&n, &(struct mf_machine_memory){(size_t)3 << 30, 1 << 30}, &err) == MF_ENOMEM &&
           strstr(err.text, "4.0") && strstr(err.text, "GiB") && strstr(err.text, "lower training.num_envs"),
       "an estimate beyond all memory is refused: %s", err.text);
    char text[300] = "";
    int console = dup(STDERR_FILENO);
    FILE *log = tmpfile();
    dup2(fileno(log), STDERR_FILENO);
    n.on_device = 2.5 * (1 << 30);
    n.beside = "its environments";
    mf_memory_say(&n, NULL, &err);
    dup2(console, STDERR_FILENO);
    rewind(log);
    ok(fgets(text, sizeof text, log) && strstr(text, " of memory and 2.50 GiB on the device beside its environments: "),
       "the device's memory is counted on its own: %s", text);
    fclose(log);
    close(console);
    n.device_left = n.device_total = (double)(2u << 30);
    ok(mf_memory_say(&n, &(struct mf_machine_memory){SIZE_MAX, SIZE_MAX}, &err) == MF_EUSAGE &&
           strstr(err.text, "2.50 GiB on the device, which has 2.00 GiB: lower training.num_envs, or take device=cpu"),
       "an estimate beyond the device's memory is refused: %s", err.text);
}

int main(void)
{
    plans(ROWS, false); /* the smallest first: what malloc gives back to itself would be missing in what is taken */
    plans(20, true);
    plans(ROWS, true);
    if (!mkdtemp(root))
        return 1;
    machines();
    processors();
    sentences();
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) ? 1 : done();
}
