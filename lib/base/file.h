/* file.h - files of others, opened for reading where they are regular files.
 *
 * A FIFO in the place of a file would make its reader wait for ever, and a device answers with what no file holds.
 */
#ifndef MF_BASE_FILE_H
#define MF_BASE_FILE_H

#include <stdio.h>

#include "base/err.h"

/* A descriptor, or negative: MF_EIO where the file cannot be opened, MF_EFORMAT where the path is a folder, a pipe, a
 * socket or a device. */
int mf_file_open(const char *path, struct mf_err *err);
/* The same as a stream; NULL with *err. */
FILE *mf_file_read(const char *path, struct mf_err *err);
/* As mf_file_read of FOLDER/NAME, and MF_EFORMAT where a symbolic link leads out of the folder: for what is copied out
 * of a folder that somebody else made. */
FILE *mf_file_read_in(const char *folder, const char *name, struct mf_err *err);

#endif
