/* learned.h - parameters with their optimiser (Adam) and their moving average, such as critics and their targets.
 *
 * Record all graphs that use them, then open them, then compile the graphs.
 */
#ifndef MF_RL_LEARNED_H
#define MF_RL_LEARNED_H

#include "base/err.h"
#include "graph/plan.h"
#include "run/safetensors.h"
#include "stream/frame.h"

struct mf_learned {
    struct mf_params params, averaged; /* one table, two arrays of values */
    struct mf_adam adam;
    float *ema;
};

/* Initial values by `seed`; the average begins as the weights. e steps them. outline: no values, for memory alone. */
int mf_learned_open(struct mf_learned *l, const struct mf_engine *e, uint64_t seed, bool outline, struct mf_err *err);
void mf_learned_release(struct mf_learned *l); /* safe on a zeroed one */
void mf_learned_memory(const struct mf_learned *l, struct mf_engine *e, struct mf_memory *to);

/* Of a process alone: its four arrays, NAME/{weights,average,m,v}, for a file: fills a[4], which borrow from it. After
 * loading them, mf_learned_touch. The counts of steps are adam's. */
void mf_learned_arrays(const struct mf_learned *l, const char *name, struct mf_array a[4]);
void mf_learned_touch(struct mf_learned *l);

#endif
