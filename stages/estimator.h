/* estimator.h - the frame of mf-gae, mf-mc and mf-nstep: filters that add the advantages of one estimator to every
 * rollout.
 */
#include "flow/spec_keys.h"
#include "rl/advantage.h"
#include "stage/stage.h"

/* The program of an estimator of lib/rl/advantage.h, whose name, summary, examples and own keys follow. */
#define ESTIMATOR(which, ...)                                                                                          \
    static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)                           \
    {                                                                                                                  \
        int rc = mf_frame_kind(f) == MF_ROLLOUT ? mf_advantage_add(self, which, f, err) : 0;                           \
        return rc ? rc : mf_emit(run, f, err);                                                                         \
    }                                                                                                                  \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const struct mf_bind_table tables[] = {{mf_advantage_binds, 0}, {0}};                                   \
        static const struct mf_stage stage = {.role = MF_FILTER,                                                       \
                                              .size = sizeof(struct mf_advantage),                                     \
                                              .frame = frame,                                                          \
                                              .fits = mf_policy_head_fits,                                             \
                                              .tables = tables,                                                        \
                                              __VA_ARGS__};                                                            \
        return mf_stage_main(&stage, argc, argv);                                                                      \
    }
