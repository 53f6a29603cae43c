/* plugin.h - a device in a shared object: device=NAME, which no file of lib defines, is searched as mf_NAME.so and
 * loaded when it is asked for. So programs link nothing of it, and start without it as fast as ever.
 *
 * Such an object exports one symbol:
 *
 *     const struct mf_plugin mf_plugin = {MF_VERSION, &mf_device_cuda, MF_PLUGIN_SIZES};
 */
#ifndef MF_DEV_PLUGIN_H
#define MF_DEV_PLUGIN_H

#include "base/err.h"
#include "base/memory.h"
#include "dev/device.h"
#include "dev/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MF_PLUGIN_STRUCTS = 21 };

struct mf_plugin {
    const char *version; /* MF_VERSION */
    const struct mf_device *device;
    size_t sizes[MF_PLUGIN_STRUCTS]; /* MF_PLUGIN_SIZES: a plugin of another build of lib/dev is refused */
};

/* Of all that a program and a device hand each other. */
#define MF_PLUGIN_SIZES                                                                                                \
    {                                                                                                                  \
        sizeof(struct mf_plugin), sizeof(struct mf_device), sizeof(struct mf_listing), sizeof(struct mf_listed),       \
            sizeof(struct mf_operand), sizeof(struct mf_value_at), sizeof(struct mf_loss_start),                       \
            sizeof(struct mf_tail), sizeof(struct mf_piece), sizeof(struct mf_op), sizeof(struct mf_call),             \
            sizeof(struct mf_tensor), sizeof(struct mf_job), sizeof(struct mf_batch), sizeof(struct mf_feed),          \
            sizeof(struct mf_fetch), sizeof(struct mf_step), sizeof(struct mf_verdict),                                \
            sizeof(struct mf_device_usage), sizeof(struct mf_memory), sizeof(struct mf_err)                            \
    }

extern const struct mf_plugin mf_plugin; /* the plugin's */

/* The device of mf_NAME.so, which stays loaded: the file $MF_NAME in capitals (MF_CUDA), else, from the folder of the
 * executable, ../lib/maniflow/mf_NAME.so, else ../build/lib/mf_NAME.so. NULL where there is none, or the name is other
 * than small letters. MF_EUSAGE: it cannot be loaded, or is of another build. */
int mf_plugin_find(const struct mf_device **device, const char *name, struct mf_err *err);

#ifdef __cplusplus
}
#endif

#endif
