/* file.h - input files, opened for reading if they are regular files.
 *
 * Opening a FIFO would block, and a device delivers endless or meaningless data.
 */
#ifndef MF_BASE_FILE_H
#define MF_BASE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* Returns a descriptor, or MF_EIO if the file cannot be opened, MF_EFORMAT if the path is a folder, a pipe, a socket or
 * a device. */
int mf_file_open(const char *path, struct mf_err *err);
/* The same as a stream; NULL with *err. */
FILE *mf_file_read(const char *path, struct mf_err *err);
/* As mf_file_read of FOLDER/NAME, and MF_EFORMAT if a symbolic link leads out of the folder: for copying from a folder
 * that is not trusted. */
FILE *mf_file_read_in(const char *folder, const char *name, struct mf_err *err);

bool mf_file_same(const char *a, const char *b); /* Do both lead to one file or folder? */
/* MF_EUSAGE: they are one regular file, which is read and would be written over. */
int mf_file_apart(const char *in, const char *out, struct mf_err *err);
/* MF_EUSAGE if two of the paths lead to one file or folder. Paths that lead nowhere are left to others. */
int mf_file_once(int n, const char *const *path, struct mf_err *err);

#endif
