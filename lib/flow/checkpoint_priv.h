/* checkpoint_priv.h - the names inside a checkpoint, for code that reads or writes its tensors.
 *
 *   network.*, critic.*, explore_noise_net.*          weights, shaped as their parameters
 *   ema/NAME                                          their EMA: policy and encoder
 *   opt/NAME/m, opt/NAME/v                            Adam's moments of trained parameters
 *   normalizer.params_dict.{obs,action}.{scale,offset}
 *   offline/NAME, ema/offline/NAME, opt/offline/NAME/{m,v}   the same of networks beside the policy (struct mf_side)
 *   state/SRC                                         opaque state of a collector
 *
 * Metadata: format, kind, version, iter, global_step, noise_low, noise_high, spec.FIELD, adam.GROUP (steps), extra.KEY;
 * base: the digest of its base (base.h); frozen: the groups that were not trained, "encoder,policy", which have no EMA
 * and no moments.
 */
#ifndef MF_FLOW_CHECKPOINT_PRIV_H
#define MF_FLOW_CHECKPOINT_PRIV_H

#include "flow/checkpoint.h"
#include "flow/policy.h"
#include "run/safetensors.h"

#define MF_CHECKPOINT_FORMAT "maniflow 1"

struct mf_loaded {
    char *path;
    struct mf_safetensors file; /* its own tensors, and those of its base */
    struct mf_safetensors base; /* zeroed: none */
    struct mf_policy_spec spec;
    int64_t version, iter, global_step;
    double noise_low, noise_high;
    bool clone;
    unsigned frozen; /* groups that were not trained, as bits */
    int n_states;
    struct mf_state *states;
};

/* The integer of the metadata GROUP+KEY. MF_EFORMAT: it is missing, or none. */
int mf_loaded_int(const struct mf_loaded *l, const char *group, const char *key, int64_t *v, struct mf_err *err);

extern const char *const mf_group_names[MF_GROUPS];

/* The shape of a parameter in a checkpoint: (cols), (rows, cols), (1, rows, cols) or a convolution's. Returns the rank.
 */
int mf_param_shape(const struct mf_param *p, size_t dim[4]);

struct mf_norm_part { /* one of the normaliser's four vectors */
    const char *name; /* "normalizer.params_dict.obs.scale" */
    float *value;
    int n;
};
void mf_norm_parts(const struct mf_policy *p, struct mf_norm_part part[4]);

#endif
