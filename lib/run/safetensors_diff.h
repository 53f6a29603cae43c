/* safetensors_diff.h - what two files differ in, for people. */
#ifndef MF_RUN_SAFETENSORS_DIFF_H
#define MF_RUN_SAFETENSORS_DIFF_H

#include <stdio.h>

#include "run/safetensors.h"

/* A line for each tensor and each fact of the metadata that differs; how many. */
int mf_safetensors_diff(const struct mf_safetensors *a, const struct mf_safetensors *b, FILE *to);

#endif
