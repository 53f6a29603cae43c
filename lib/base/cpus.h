/* cpus.h - the number of processors that this process may use. */
#ifndef MF_BASE_CPUS_H
#define MF_BASE_CPUS_H

/* The processors of its affinity mask (taskset, cpusets, Slurm), limited by the CPU quota of its control groups,
 * rounded up; at least 1. root: "" for this machine, otherwise a folder with its /proc and /sys. */
int mf_cpus(const char *root);

#endif
