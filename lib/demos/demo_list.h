/* demo_list.h - the demonstrations in a file of robomimic's layout (demos.h). path names the file in errors. */
#ifndef MF_DEMOS_DEMO_LIST_H
#define MF_DEMOS_DEMO_LIST_H

#include "demos/demos.h"
#include "demos/h5.h"

/* Those of a filter key (NULL: all), by id; n of the demos stays 0. *demo is malloc'ed, also on failure. MF_EUSAGE
 * lists the file's filter keys; MF_EFORMAT says what the file holds instead of demonstrations. */
int mf_demo_list(hid_t file, const char *path, const char *filter, struct mf_demo **demo, size_t *n,
                 struct mf_err *err);

/* MF_EFORMAT where it has no observations, with what to do about that. */
int mf_demo_has_obs(hid_t file, const char *path, const struct mf_demo *demo, struct mf_err *err);

#endif
