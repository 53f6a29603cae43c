/* test_ppo.c on a device with a memory of its own. */
#include "plain_device.h"

#include "test_ppo.c"
