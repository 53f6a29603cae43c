/* publish.h - a file appears under its name whole, or not at all. */
#ifndef MF_BASE_PUBLISH_H
#define MF_BASE_PUBLISH_H

#include "base/err.h"

/* What was written to `part`, and closed, goes onto the disk and then takes its name `path`, in the same folder. On
 * failure `part` is removed and what was at `path` is what it was. */
int mf_publish(const char *part, const char *path, struct mf_err *err);

#endif
