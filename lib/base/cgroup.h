/* cgroup.h - the control groups that hold this process: what a container or a job may take of the machine. */
#ifndef MF_BASE_CGROUP_H
#define MF_BASE_CGROUP_H

#include <stdbool.h>

/* Calls visit(arg, folder, v2) with the folder of each group of "memory" or "cpu" that this process is in, from its own
 * upwards: the limits of all of them hold. In a container the path may be another's, and only the top is there. v2: the
 * folder's files are those of version 2. root: "" for this machine, else a folder with its /proc and /sys. */
void mf_cgroup_each(const char *root, const char *controller, void (*visit)(void *arg, const char *folder, bool v2),
                    void *arg);

#endif
