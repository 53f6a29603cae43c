/* device_under_test.h - the device that a test opens: $MF_TEST_DEVICE, or cpu. */
#ifndef MF_DEVICE_UNDER_TEST_H
#define MF_DEVICE_UNDER_TEST_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dev/device.h"

static inline const char *device_under_test(void)
{
    const char *name = getenv("MF_TEST_DEVICE");
    return name && *name ? name : "cpu";
}

/* $MF_TEST_FEW: a test takes a part of its cases, since the device is emulated (tests/emu/run), which is slow. */
static inline bool few_cases(void)
{
    return getenv("MF_TEST_FEW") != NULL;
}

/* How far numbers may be from those of ref, relative to the largest: values; twice that for gradients. */
static inline double precision_bound(enum mf_precision p)
{
    return p == MF_BF16 ? 5e-2 : p == MF_TF32 ? 4e-3 : strcmp(device_under_test(), "cpu") ? 5e-6 : 2e-6;
}

#endif
