/* import_families.h - the families that import.c knows. Private to lib/flow. */
#ifndef MF_FLOW_IMPORT_FAMILIES_H
#define MF_FLOW_IMPORT_FAMILIES_H

#include "flow/import.h"

extern const struct mf_family mf_family_reinflow, mf_family_maniflow;

#endif
