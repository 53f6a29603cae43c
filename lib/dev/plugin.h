/* plugin.h - a device in a shared object (base/plugin.h): device=NAME, which no file of lib defines. */
#ifndef MF_DEV_PLUGIN_H
#define MF_DEV_PLUGIN_H

#include "base/err.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "dev/device.h"
#include "dev/op.h"

/* Of all that a program and a device hand each other. */
#define MF_PLUGIN_SIZES                                                                                                \
    {                                                                                                                  \
        sizeof(struct mf_plugin), sizeof(struct mf_device), sizeof(struct mf_listing), sizeof(struct mf_ranks_verbs),  \
            sizeof(struct mf_listed), sizeof(struct mf_operand), sizeof(struct mf_value_at),                           \
            sizeof(struct mf_loss_start), sizeof(struct mf_tail), sizeof(struct mf_piece), sizeof(struct mf_op),       \
            sizeof(struct mf_call), sizeof(struct mf_tensor), sizeof(struct mf_job), sizeof(struct mf_batch),          \
            sizeof(struct mf_feed), sizeof(struct mf_fetch), sizeof(struct mf_step), sizeof(struct mf_verdict),        \
            sizeof(struct mf_device_usage), sizeof(struct mf_memory), sizeof(struct mf_err)                            \
    }

#endif
