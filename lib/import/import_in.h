/* import_in.h - a PyTorch file's policy in an environment: built in, behind a server, or none. */
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
};

/* Write the file's policy as the checkpoint `to`; *spec becomes its. Observations and actions are the environment's,
 * under policy.obs_keys or else as the file names them; without one, those of policy.obs_keys in demonstrations that
 * are the normaliser; else the file's own. */
int mf_import_in(struct mf_import *im, const struct mf_import_in *in, const char *to, struct mf_policy_spec *spec,
                 struct mf_err *err);

#endif
