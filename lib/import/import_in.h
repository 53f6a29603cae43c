/* import_in.h - imports a policy for an environment that is built in, served, or absent. */
#ifndef MF_IMPORT_IMPORT_IN_H
#define MF_IMPORT_IMPORT_IN_H

#include "conf/conf.h"
#include "env/env.h"
#include "flow/spec.h"
#include "import/import.h"

struct mf_import_in {
    const struct mf_env_opts *env; /* NULL: no environment was named */
    const struct mf_names *keys;   /* policy.obs_keys */
    const struct mf_conf *conf;
    const char *normalizer; /* as mf_import_normalizer takes it */
    bool keep_bf16;         /* as in struct mf_import */
};

/* Writes the file's policy as the checkpoint `to`, and *spec as its spec. Observations and actions are those of the
 * environment, chosen by policy.obs_keys or by the file's names; without an environment those of policy.obs_keys in the
 * demonstrations that give the normaliser; else those of the file. */
int mf_import_in(struct mf_import *im, const struct mf_import_in *in, const char *to, struct mf_policy_spec *spec,
                 struct mf_err *err);

#endif
