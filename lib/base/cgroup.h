/* cgroup.h - the control groups of this process: the limits of a container or a job. */
#ifndef MF_BASE_CGROUP_H
#define MF_BASE_CGROUP_H

#include <stdbool.h>

/* Calls visit(arg, folder, v2) with the folder of each "memory" or "cpu" group of this process, from its own group
 * upwards; the limits of all of them apply. In a container only the top group may be visible. v2: the files are those
 * of cgroup version 2. root: "" for this machine, otherwise a folder with its /proc and /sys. */
void mf_cgroup_each(const char *root, const char *controller, void (*visit)(void *arg, const char *folder, bool v2),
                    void *arg);

#endif
