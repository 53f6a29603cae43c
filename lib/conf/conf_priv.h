/* conf_priv.h - shared by the two ways into a configuration: words and files. */
#ifndef MF_CONF_CONF_PRIV_H
#define MF_CONF_CONF_PRIV_H

#include "conf/value.h"

/* Set one key. where is "FILE:LINE", NULL for a word of the command line; every sentence begins with it. */
int mf_conf_set(struct mf_conf *c, const char *name, const struct mf_value *v, const char *where, struct mf_err *err);
/* "training": some key's name begins with "training." */
bool mf_conf_is_group(const char *name);

#endif
