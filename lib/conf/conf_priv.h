/* conf_priv.h - shared by the two ways into a configuration: words and files. */
#ifndef MF_CONF_CONF_PRIV_H
#define MF_CONF_CONF_PRIV_H

#include "conf/value.h"

/* A number for the file that is read now: in one file a key stands once. */
int mf_conf_reading(struct mf_conf *c);
/* Set one key. where is "FILE:LINE" and reading that file's number; NULL and 0 for a word of the command line.
 * Every sentence begins with where. */
int mf_conf_set(struct mf_conf *c, const char *name, const struct mf_value *v, const char *where, int reading,
                struct mf_err *err);
/* "training": some key's name begins with "training." */
bool mf_conf_is_group(const char *name);

#endif
