/* folder.h - ownership of a log folder: one run, and one writer at a time.
 *
 * The file metrics.run in it names the run, and is locked while logs are written. Files of another run are never
 * changed: the new run's logs go to a subfolder with its name.
 */
#ifndef MF_SERIES_FOLDER_H
#define MF_SERIES_FOLDER_H

#include "base/err.h"

struct mf_series_folder { /* zeroed: none */
    char path[1024];      /* where the logs go */
    char whose[1024];     /* the run that owns the requested folder; "": this run */
    int lock;             /* descriptor; 0: none */
};

/* run: identifies the run ("": unknown, so no existing log is its own); NULL: the folder belongs to the run in any
 * case. name: name of the subfolder, any text. MF_EIO: the folder cannot be written, or another process keeps writing
 * this run's logs for several seconds. */
int mf_series_folder_take(struct mf_series_folder *f, const char *dir, const char *run, const char *name,
                          struct mf_err *err);
void mf_series_folder_leave(struct mf_series_folder *f); /* safe on a zeroed one */

#endif
