/* spec_keys.h - a policy's spec from the policy.* keys of a configuration. */
#ifndef MF_FLOW_SPEC_KEYS_H
#define MF_FLOW_SPEC_KEYS_H

#include "base/err.h"
#include "conf/conf.h"
#include "flow/spec.h"

struct mf_loaded;

/* Rows for the tables of a stage that has a policy. They bind no field: the functions below read the configuration.
 * policy.obs_keys is not among them. */
extern const struct mf_bind mf_policy_binds[];

/* The spec of these keys for the observations and A actions of an environment or of demonstrations. */
int mf_policy_spec_make(struct mf_policy_spec *s, const struct mf_conf *conf, const struct mf_layout *obs, int A,
                        struct mf_err *err);

/* *s, which `name` says, with the keys that were set on top. MF_EUSAGE, with both values, where one of them or the
 * environment contradicts what shapes the network. */
int mf_policy_spec_overlay(struct mf_policy_spec *s, const char *name, const struct mf_policy_spec *asked,
                           const struct mf_conf *conf, struct mf_err *err);
/* The checkpoint's spec, with the keys that were set on top. */
int mf_policy_spec_adopt(struct mf_policy_spec *s, const struct mf_loaded *l, const struct mf_conf *conf,
                         const struct mf_layout *obs, int A, struct mf_err *err);
/* MF_EUSAGE, with both values, where a key that was set contradicts the spec that came with the stream. */
int mf_policy_spec_holds(const struct mf_policy_spec *stream, const struct mf_conf *conf, struct mf_err *err);
/* Can a learner with these keys work with what makes this stream? MF_EFORMAT or MF_EUSAGE: why not. */
int mf_policy_head_fits(const struct mf_frame *head, const struct mf_conf *conf, struct mf_err *err);
/* Does it carry encodings in place of observations? MF_EUSAGE where the encoder is to learn. */
int mf_policy_head_encoded(const struct mf_frame *head, const struct mf_conf *conf, bool *encoded, struct mf_err *err);

#endif
