/* rundir_socket.c - the path of a run's policy socket: in its folder, unless that path is too long. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "stage/rundir.h"

enum { SOCKET_PATH = sizeof((struct sockaddr_un *)0)->sun_path - 1 }; /* bytes, at most */

/* A hash of the folder's full path, the same for all processes. */
static uint64_t hash_of(const char *dir)
{
    char *full = realpath(dir, NULL);
    uint64_t h = mf_text_hash(full ? full : dir);
    free(full);
    return h;
}

/* A private folder. One that another user made under this name is not accepted. */
static bool make_private(const char *path)
{
    struct stat st;
    return (mkdir(path, 0700) == 0 || errno == EEXIST) && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

int mf_rundir_socket(const char *dir, char *address, size_t size, struct mf_err *err)
{
    const char *const parent[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    char path[MF_PATH_MAX + 16];
    int n = snprintf(path, sizeof path, "%s/policy.sock", dir);
    for (int i = 0; n > SOCKET_PATH && i < 3; i++) {
        if (!parent[i] || *parent[i] != '/')
            continue;
        snprintf(path, sizeof path, "%.200s/maniflow-%ld", parent[i], (long)geteuid());
        if (!make_private(path))
            continue;
        n = snprintf(path, sizeof path, "%.200s/maniflow-%ld/%016llx.sock", parent[i], (long)geteuid(),
                     (unsigned long long)hash_of(dir));
    }
    if (n > SOCKET_PATH)
        return mf_err_set(
            err, MF_EIO,
            "the path %.200s is too long for a socket (%d bytes), and no private folder can be created below "
            "$XDG_RUNTIME_DIR, $TMPDIR or /tmp: give a shorter run.dir",
            dir, SOCKET_PATH);
    snprintf(address, size, "ipc://%s", path);
    return 0;
}
