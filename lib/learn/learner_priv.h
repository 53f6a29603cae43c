/* learner_priv.h - the two halves of a learner: its beginning, and its rounds. Inside lib/learn. */
#ifndef MF_LEARN_LEARNER_PRIV_H
#define MF_LEARN_LEARNER_PRIV_H

#include "learn/learner.h"

/* At the first head: opens folder and policy, and serves it. */
int mf_learner_begin(struct mf_run *run, struct mf_learner *q, struct mf_frame *head, struct mf_err *err);
/* MF_EDEVICE: ranks have computed different policies. */
int mf_learner_compare(const struct mf_learner *q, struct mf_err *err);
/* Serves the policy as it is now, with the states of all collectors. */
int mf_learner_publish(struct mf_learner *q, struct mf_err *err);

#endif
