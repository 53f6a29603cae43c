/* memory.h - the estimated memory of a program, reported before it is allocated.
 *
 * Each module adds the bytes that it will allocate and touch; the program logs the sum in one line.
 */
#ifndef MF_BASE_MEMORY_H
#define MF_BASE_MEMORY_H

#include <stddef.h>

#include "base/err.h"

enum mf_memory_of {
    MF_MEMORY_WEIGHTS,     /* parameters, their averages and moments, packed copies */
    MF_MEMORY_GRADIENTS,   /* accumulator lanes and their sum */
    MF_MEMORY_ACTIVATIONS, /* arenas of the worker threads */
    MF_MEMORY_ROWS,        /* a round and its minibatches, or those of demonstrations */
    MF_MEMORY_SERVED,      /* versions of the policy on their way to collectors */
    MF_MEMORY_PARTS
};

struct mf_memory {
    double of[MF_MEMORY_PARTS];        /* bytes */
    double on_device;                  /* bytes, of a device with a memory of its own; not in the sum */
    double device_total, device_left;  /* of that memory; 0: unknown */
    const char *keys[MF_MEMORY_PARTS]; /* keys to lower if a part is too large: "training.num_envs" */
    const char *beside;                /* memory that is not counted, "its environments"; NULL: none */
};

double mf_memory_sum(const struct mf_memory *n);

struct mf_machine_memory { /* bytes, within the limits of the control groups */
    size_t total, available;
};
/* root: "" for this machine, otherwise a folder with its /proc and /sys. Unknown values are SIZE_MAX. */
struct mf_machine_memory mf_machine_memory(const char *root);

/* Logs one line: the sum, including the memory already in use, that of the device, and the parts of the sum. Warns with
 * the keys to lower if less is available; MF_ENOMEM if the machine has less in total, MF_EUSAGE if the device has.
 * NULL: this machine. */
int mf_memory_say(const struct mf_memory *n, const struct mf_machine_memory *m, struct mf_err *err);

#endif
