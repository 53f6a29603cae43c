#include "base/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

static bool sync_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return good;
}

int mf_publish(const char *part, const char *path, struct mf_err *err)
{
    if (!sync_file(part, O_RDWR) || rename(part, path) < 0) {
        int rc = mf_err_errno(err, "cannot make '%s' of '%s'", path, part);
        unlink(part);
        return rc;
    }
    /* The name is on the disk when its folder is. Some filesystems cannot sync one: nothing to be done there. */
    char *copy = mf_xstrdup(path);
    (void)sync_file(dirname(copy), O_RDONLY | O_DIRECTORY);
    free(copy);
    return 0;
}
