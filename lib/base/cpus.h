/* cpus.h - how many processors this process may use. */
#ifndef MF_BASE_CPUS_H
#define MF_BASE_CPUS_H

/* Those that its affinity leaves (taskset, cpusets, Slurm), and at most the quota of its control groups, rounded up;
 * at least 1. root: "" for this machine, else a folder with its /proc and /sys. */
int mf_cpus(const char *root);

#endif
