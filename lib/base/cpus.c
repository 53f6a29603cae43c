#include "base/cpus.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup.h"

/* Reads up to two numbers at the start of a file; returns how many. "max 100000" has none. */
static int numbers_in(const char *folder, const char *name, double n[2])
{
    char path[1300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    const int got = f ? fscanf(f, "%lf %lf", &n[0], &n[1]) : 0;
    if (f)
        fclose(f);
    return got;
}

static void hold_to(void *arg, const char *folder, bool v2)
{
    double *most = arg, n[2], quota[2], period[2]; /* us */
    const bool limited =
        v2 ? numbers_in(folder, "cpu.max", n) == 2
           : numbers_in(folder, "cpu.cfs_quota_us", quota) == 1 && numbers_in(folder, "cpu.cfs_period_us", period) == 1;
    if (limited && !v2)
        n[0] = quota[0], n[1] = period[0];
    if (limited && n[0] > 0 && n[1] > 0)
        *most = fmin(*most, ceil(n[0] / n[1]));
}

int mf_cpus(const char *root)
{
    cpu_set_t may;
    double most = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : (double)sysconf(_SC_NPROCESSORS_ONLN);
    mf_cgroup_each(root, "cpu", hold_to, &most);
    return most > 1 ? (int)most : 1;
}
