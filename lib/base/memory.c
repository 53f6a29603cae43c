#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/log.h"

enum { LATER = 4 << 20 }; /* pages of libraries, stacks and small objects, touched later */

static const char *const names[MF_MEMORY_PARTS] = {"weights", "gradients", "activations", "rows", "versions served"};

double mf_memory_sum(const struct mf_memory *n)
{
    double sum = 0;
    for (int i = 0; i < MF_MEMORY_PARTS; i++)
        sum += n->of[i];
    return sum;
}

/* ---- the machine ---- */

/* The number in a file, or after `key` on one of its lines; SIZE_MAX: none ("max"). */
static size_t number_in(const char *path, const char *key, size_t unit)
{
    char line[256];
    unsigned long long v;
    size_t found = SIZE_MAX, n = strlen(key);
    FILE *f = fopen(path, "re");
    while (f && found == SIZE_MAX && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && sscanf(line + n, "%llu", &v) == 1 && v < SIZE_MAX / unit / 2)
            found = (size_t)v * unit;
    if (f)
        fclose(f);
    return found;
}

/* A control group's folder: its limit, and what is left of it. Pages of files that nobody used lately are given back.
 */
static void hold_to(void *arg, const char *folder, bool v2)
{
    struct mf_machine_memory *m = arg;
    char path[1300];
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    size_t limit = number_in(path, "", 1);
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    size_t used = number_in(path, "", 1);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    size_t files = number_in(path, v2 ? "inactive_file " : "total_inactive_file ", 1);
    if (limit == SIZE_MAX)
        return;
    used = used == SIZE_MAX ? 0 : used;
    used -= files < used ? files : 0;
    size_t left = used < limit ? limit - used : 0;
    m->total = limit < m->total ? limit : m->total;
    m->available = left < m->available ? left : m->available;
}

struct mf_machine_memory mf_machine_memory(const char *root)
{
    char path[600];
    snprintf(path, sizeof path, "%.500s/proc/meminfo", root);
    struct mf_machine_memory m = {number_in(path, "MemTotal:", 1024), number_in(path, "MemAvailable:", 1024)};
    mf_cgroup_each(root, "memory", hold_to, &m);
    return m;
}

/* ---- the report ---- */

static size_t resident(void)
{
    unsigned long all, pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void words(char *to, size_t room, double bytes)
{
    double mib = bytes / (1 << 20);
    snprintf(to, room, mib < 1000 ? "%.0f MiB" : "%.2f GiB", mib < 1000 ? mib : mib / 1024);
}

/* The keys that make the largest part smaller. */
static const char *advice(const struct mf_memory *n)
{
    int most = 0;
    for (int i = 1; i < MF_MEMORY_PARTS; i++)
        most = n->keys[i] && n->of[i] > n->of[most] ? i : most;
    return n->keys[most];
}

static int say_device(const struct mf_memory *n, struct mf_err *err)
{
    char needs[32], has[32];
    const char *keys = n->keys[MF_MEMORY_ROWS] ? n->keys[MF_MEMORY_ROWS] : advice(n); /* most of it grows by the rows */
    words(needs, sizeof needs, n->on_device);
    words(has, sizeof has, n->device_total);
    if (n->on_device <= n->device_left)
        return 0;
    if (n->on_device > n->device_total)
        return mf_err_set(err, MF_EUSAGE,
                          "this needs about %s on the device, which has %s: lower %s, or take device=cpu", needs, has,
                          keys);
    words(has, sizeof has, n->device_left);
    mf_log(MF_LOG_WARN, "this needs about %s on the device and %s are free: if it runs out of memory, lower %s", needs,
           has, keys);
    return 0;
}

int mf_memory_say(const struct mf_memory *n, const struct mf_machine_memory *m, struct mf_err *err)
{
    const struct mf_machine_memory here = mf_machine_memory("");
    m = m ? m : &here;
    char sum[32], left[32], part[32], device[64] = "", parts[256];
    double program = (double)resident() + LATER, all = program + mf_memory_sum(n);
    words(sum, sizeof sum, all);
    words(part, sizeof part, program);
    snprintf(parts, sizeof parts, ": the program %s", part);
    words(left, sizeof left, (double)m->available);
    for (int i = 0; i < MF_MEMORY_PARTS; i++) {
        if (n->of[i] < 1 << 19)
            continue;
        size_t at = strlen(parts);
        words(part, sizeof part, n->of[i]);
        snprintf(parts + at, sizeof parts - at, ", %s %s", names[i], part);
    }
    words(part, sizeof part, n->on_device);
    if (n->on_device > 0)
        snprintf(device, sizeof device, " and %s on the device", part);
    mf_log(MF_LOG_INFO, "takes about %s of memory%s%s%s%s", sum, device, n->beside ? " beside " : "",
           n->beside ? n->beside : "", parts);
    if (n->device_total > 0 && say_device(n, err))
        return err->code;
    if (all <= (double)m->available)
        return 0;
    if (.9 * all > (double)m->total)
        return mf_err_set(err, MF_ENOMEM, "this needs about %s of memory, more than the machine has: lower %s", sum,
                          advice(n));
    mf_log(MF_LOG_WARN, "this needs about %s of memory and %s are available: if the program is killed, lower %s", sum,
           left, advice(n));
    return 0;
}
