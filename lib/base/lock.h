/* lock.h - one writer at a time, by flock on an open file, where the file system has locks.
 *
 * NFS without its lock service and Lustre without -o flock have none. Then nobody is kept out, which the caller says
 * once; whether a writer still works shows the note that it leaves in the file, as far as this host can know.
 */
#ifndef MF_BASE_LOCK_H
#define MF_BASE_LOCK_H

#include <stdbool.h>

#include "base/err.h"

enum mf_lock {
    MF_LOCK_OURS,   /* until the descriptor is closed, or mf_lock_leave */
    MF_LOCK_THEIRS, /* another process has it */
    MF_LOCK_NONE,   /* the file system has no locks; errno says why */
};

/* fd: opened for writing, which NFS asks for. */
enum mf_lock mf_lock_try(int fd);
/* The same, asking again for so many seconds as long as it is theirs. MF_STOPPED: a signal asked for an end. */
int mf_lock_wait(int fd, double seconds, enum mf_lock *got, struct mf_err *err);
void mf_lock_leave(int fd);

/* The note of this process, in place of what the file held: host, process, when it began. */
void mf_lock_sign(int fd);
void mf_lock_unsign(int fd);
/* Does the process of the note live? One of another host: `elsewhere`, as nobody here can know. */
bool mf_lock_signer_lives(int fd, bool elsewhere);

#endif
