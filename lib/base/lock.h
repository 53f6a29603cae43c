/* lock.h - one writer at a time, by flock on an open file, where the file system has locks.
 *
 * NFS without its lock service and Lustre without -o flock have none. Then nothing excludes a second writer, and the
 * caller warns once. Instead of the lock, a note in the file (host, process, start) tells whether the writer is still
 * running, if it runs on this host.
 */
#ifndef MF_BASE_LOCK_H
#define MF_BASE_LOCK_H

#include <stdbool.h>

#include "base/err.h"

enum mf_lock {
    MF_LOCK_OURS,   /* until the descriptor is closed, or mf_lock_leave */
    MF_LOCK_THEIRS, /* another process holds it */
    MF_LOCK_NONE,   /* the file system has no locks; errno says why */
};

/* fd must be open for writing, as NFS requires. */
enum mf_lock mf_lock_try(int fd);
/* The same, retried for that many seconds while another process holds it. MF_STOPPED: SIGINT or SIGTERM arrived. */
int mf_lock_wait(int fd, double seconds, enum mf_lock *got, struct mf_err *err);
void mf_lock_leave(int fd);

/* Replaces the file's content by the note of this process: host, process, start time. */
void mf_lock_sign(int fd);
void mf_lock_unsign(int fd);
/* Is the process of the note running? Returns `elsewhere` for a process of another host, which cannot be known here. */
bool mf_lock_signer_lives(int fd, bool elsewhere);

#endif
