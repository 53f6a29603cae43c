#include "base/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map(int fd, const char *path, const char *kind, void **out, size_t *size, struct mf_err *err)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return mf_err_errno(err, "cannot open %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return mf_err_set(err, MF_EFORMAT, "%s is %s, not %s", path,
                          S_ISDIR(st.st_mode)   ? "a folder"
                          : S_ISREG(st.st_mode) ? "empty"
                                                : "no regular file",
                          kind);
    *size = (size_t)st.st_size;
    *out = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    return *out == MAP_FAILED ? mf_err_errno(err, "cannot map %s", path) : 0;
}

int mf_map_file(const char *path, const char *kind, void **out, size_t *size, int *keep, struct mf_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = map(fd, path, kind, out, size, err);
    if (fd >= 0 && (rc || !keep))
        close(fd);
    if (rc == 0 && keep)
        *keep = fd;
    return rc;
}
