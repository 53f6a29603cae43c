/* folder.h - whose logs a folder holds: those of one run, and of one writer at a time.
 *
 * The file metrics.run in it names the run, and is locked while the logs are written. Another run's files are never
 * touched: its logs go to a folder below, which has the run's name.
 */
#ifndef MF_SERIES_FOLDER_H
#define MF_SERIES_FOLDER_H

#include "base/err.h"

struct mf_series_folder { /* zeroed: none */
    char path[1024];      /* where the logs go */
    char whose[1024];     /* the run whose logs were in the folder that was asked for; "": it is ours */
    int lock;             /* descriptor; 0: none */
};

/* run: what identifies the run ("": nothing does, and nothing that is there is its own); NULL: the folder is the run's
 * own, whatever its record says. name: of the folder below, from any text. MF_EIO: the folder cannot be written, or
 * another program writes this run's logs and does not end within some seconds. */
int mf_series_folder_take(struct mf_series_folder *f, const char *dir, const char *run, const char *name,
                          struct mf_err *err);
void mf_series_folder_leave(struct mf_series_folder *f); /* of a zeroed one: nothing happens */

#endif
