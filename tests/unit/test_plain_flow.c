/* test_flow.c on a device with a memory of its own. */
#include "plain_device.h"

#include "test_flow.c"
