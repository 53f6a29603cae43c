/* memory.h - the memory that a program is going to take, said before it takes it.
 *
 * Who allocates adds what that will be, in bytes that are going to be touched; the program says the sum in one line.
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
    double of[MF_MEMORY_PARTS];        /* bytes; of any sizes that somebody asks for */
    const char *keys[MF_MEMORY_PARTS]; /* to lower where a part is too large: "training.num_envs" */
    const char *beside;                /* what is not counted, "its environments"; NULL: nothing */
};

double mf_memory_sum(const struct mf_memory *n);

struct mf_machine_memory { /* bytes; what a control group allows is all there is */
    size_t total, available;
};
/* root: "" for this machine, else a folder with its /proc and /sys. Unknown: SIZE_MAX. */
struct mf_machine_memory mf_machine_memory(const char *root);

/* One line in the log: the sum, with what the process has already, and its parts. A warning that names the keys to
 * lower where less is available; MF_ENOMEM where the machine has less than that altogether. NULL: this machine. */
int mf_memory_say(const struct mf_memory *n, const struct mf_machine_memory *m, struct mf_err *err);

#endif
