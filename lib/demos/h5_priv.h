/* h5_priv.h - what h5.c and h5_links.c share. deep: how many views lie above this dataset. */
#ifndef MF_DEMOS_H5_PRIV_H
#define MF_DEMOS_H5_PRIV_H

#include "demos/h5.h"

int mf_h5_whole_at(hid_t set, struct mf_h5_held *held, int deep, struct mf_err *err);
/* All sources of a virtual dataset are there and whole. *mapped: how many of its elements have one. */
int mf_h5_sources(hid_t set, hid_t plist, uint64_t *mapped, struct mf_h5_held *held, int deep, struct mf_err *err);
int mf_h5_raw_files(hid_t plist, uint64_t need, struct mf_err *err); /* external raw storage of so many bytes */

#endif
