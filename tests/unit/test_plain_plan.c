/* test_plan.c on a device with a memory of its own. */
#include "plain_device.h"

#include "test_plan.c"
