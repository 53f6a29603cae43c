/* batch_priv.h - the environments of several servers: what they are asked, and what their answers do. */
#ifndef MF_ENV_BATCH_PRIV_H
#define MF_ENV_BATCH_PRIV_H

#include "env/served_priv.h"
#include "env/stepper.h"

/* A decision, a reset, a load: one request to each server, in parallel, then one reply from each. */
struct mf_served_batch {
    struct mf_served *s;
    struct mf_slots *r; /* of the current call, like the following */
    int n_servers;
    struct mf_resizer pictures; /* the observations as the servers have them */
    uint8_t *which;             /* (N) */
    const float *actions;
    bool autoreset;
    void **state; /* (N) what save fills */
    const void *const *saved;
    size_t *size;
};

struct mf_served_question {
    const char *say;
    int (*fill)(const struct mf_served_batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err);
    int (*take)(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err);
};

extern const struct mf_served_question mf_ask_make, mf_ask_reset, mf_ask_step, mf_ask_save, mf_ask_load;

#endif
