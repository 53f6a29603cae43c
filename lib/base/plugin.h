/* plugin.h - a table of functions in a shared object, which is searched as mf_NAME.so and loaded when it is asked for.
 * So programs link nothing of it, and start without it as fast as ever.
 *
 * Such an object exports one symbol:
 *
 *     const struct mf_plugin mf_plugin = {MF_VERSION, &mf_device_cuda, MF_PLUGIN_SIZES};
 */
#ifndef MF_BASE_PLUGIN_H
#define MF_BASE_PLUGIN_H

#include <stddef.h>

#include "base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MF_PLUGIN_STRUCTS = 24 };

struct mf_plugin {
    const char *version; /* MF_VERSION */
    const void *table;
    size_t sizes[MF_PLUGIN_STRUCTS]; /* of all structs that a program and the object hand each other, then 0 */
};

extern const struct mf_plugin mf_plugin; /* the plugin's */

/* The table of mf_NAME.so, which stays loaded: the file $MF_NAME in capitals (MF_CUDA), else, from the folder of the
 * executable, ../lib/maniflow/mf_NAME.so, else ../build/lib/mf_NAME.so. NULL where there is none, or the name is other
 * than small letters. MF_EUSAGE, begun by `asked` ("device=cuda"): it cannot be loaded, or is of another build, that
 * is, its sizes are not these. */
int mf_plugin_find(const void **table, const char *name, const char *asked, const size_t sizes[MF_PLUGIN_STRUCTS],
                   struct mf_err *err);

#ifdef __cplusplus
}
#endif

#endif
