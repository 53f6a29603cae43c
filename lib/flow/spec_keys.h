/* spec_keys.h - a policy's spec from the policy.* keys of a configuration. */
#ifndef MF_FLOW_SPEC_KEYS_H
#define MF_FLOW_SPEC_KEYS_H

#include "base/err.h"
#include "conf/conf.h"
#include "flow/spec.h"

struct mf_loaded;

/* Rows of the policy.* keys, for the tables of a stage. They bind no field: the functions below read the configuration.
 * policy.obs_keys is not among them. */
extern const struct mf_bind mf_policy_binds[];

/* The spec of these keys for the observations and A actions of an environment or of demonstrations. */
int mf_policy_spec_make(struct mf_policy_spec *s, const struct mf_conf *conf, const struct mf_layout *obs, int A,
                        struct mf_err *err);

/* Notes the digest of the tokenizer that makes the tokens of s, of ids below `pieces`; NULL: unknown. MF_EUSAGE, with
 * both digests, where the policy, that of `name`, was trained with another one; or where it has fewer embeddings. */
int mf_policy_spec_tokenizer(struct mf_policy_spec *s, const char *name, const char *digest, int pieces,
                             struct mf_err *err);

/* Overrides *s, the spec of `name`, by the keys that were set. MF_EUSAGE, with both values, where a key or the
 * environment contradicts a field that determines the network or its training. */
int mf_policy_spec_overlay(struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                           const struct mf_conf *conf, struct mf_err *err);
/* The checkpoint's spec, overridden likewise by the keys and by an environment's, or demos', observations and A
 * actions; demos: their file, NULL: they are an environment's. No critic if policy.add_value_head=false, or if PPO
 * trained it without one. */
int mf_policy_spec_adopt(struct mf_policy_spec *s, const struct mf_loaded *l, const struct mf_conf *conf,
                         const struct mf_layout *obs, int A, const char *demos, struct mf_err *err);
/* MF_EUSAGE, with both values, where a key that was set contradicts the spec in the stream's head. */
int mf_policy_spec_holds(const struct mf_policy_spec *stream, const struct mf_conf *conf, struct mf_err *err);
/* 0 if a learner with these keys can read the stream of this head, else MF_EFORMAT or MF_EUSAGE. */
int mf_policy_head_fits(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err);
/* Does the stream carry encodings in place of observations? MF_EUSAGE if the keys would train the encoder. */
int mf_policy_head_encoded(const struct mf_frame *head, const struct mf_conf *conf, bool *encoded, struct mf_err *err);

#endif
