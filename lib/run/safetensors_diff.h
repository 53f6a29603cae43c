/* safetensors_diff.h - the differences of two files, as text. */
#ifndef MF_RUN_SAFETENSORS_DIFF_H
#define MF_RUN_SAFETENSORS_DIFF_H

#include <stdio.h>

#include "run/safetensors.h"

/* Prints a line for each tensor and each entry of the metadata that differs; returns how many. */
int mf_safetensors_diff(const struct mf_safetensors *a, const struct mf_safetensors *b, FILE *to);

#endif
