/* frames.h - a policy on the policy edge: all that sampling reads, as frames. */
#ifndef MF_FLOW_FRAMES_H
#define MF_FLOW_FRAMES_H

#include "flow/policy.h"

/* n encoded frames of at most 64 MiB of tensors. drop gives them back. */
int mf_policy_encode(const struct mf_policy *p, void ***parts, size_t **sizes, int *n, struct mf_err *err);
void mf_policy_drop(void **parts, size_t *sizes, int n);
/* And back: all parts, in any order. */
int mf_policy_decode(struct mf_policy *p, const void *const *parts, const size_t *sizes, int n, struct mf_err *err);
int mf_policy_from_frame(struct mf_policy *p, const struct mf_frame *part, struct mf_err *err);
void mf_policy_digest(const struct mf_policy *p, char hex[17]);         /* of weights, normaliser, noise in force */
void mf_policy_encoder_digest(const struct mf_policy *p, char hex[17]); /* of what encodings depend on */

#endif
