/* frames.h - a policy as frames, for collectors: everything that sampling reads. */
#ifndef MF_FLOW_FRAMES_H
#define MF_FLOW_FRAMES_H

#include "flow/policy.h"

/* n encoded frames, each with at most 64 MiB of tensors or a single tensor. mf_policy_drop frees them. leaves: they
 * leave out the frozen parameters, for a reader that has those of the same digest (p->frozen). */
int mf_policy_encode(const struct mf_policy *p, bool leaves, void ***parts, size_t **sizes, int *n, struct mf_err *err);
void mf_policy_drop(void **parts, size_t *sizes, int n);
size_t mf_policy_sent(const struct mf_policy *p, bool leaves); /* bytes of their tensors; also of an outline */
/* Decodes all parts, in any order. MF_EUSAGE: they leave out frozen parameters of another digest than p->frozen, or
 * have other numbers than those that p uses from its file. */
int mf_policy_decode(struct mf_policy *p, const void *const *parts, const size_t *sizes, int n, struct mf_err *err);
int mf_policy_from_frame(struct mf_policy *p, const struct mf_frame *part, struct mf_err *err);
void mf_policy_digest(const struct mf_policy *p, char hex[17]);         /* of weights, normaliser, current noise */
void mf_policy_encoder_digest(const struct mf_policy *p, char hex[17]); /* of encoder and normaliser */

#endif
