#include "base/map.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int map(int fd, const char *path, const char *kind, void **out, size_t *size, struct mf_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return mf_err_errno(err, "cannot open %s", path);
    if (st.st_size == 0)
        return mf_err_set(err, MF_EFORMAT, "%s is empty, not %s", path, kind);
    *size = (size_t)st.st_size;
    *out = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    return *out == MAP_FAILED ? mf_err_errno(err, "cannot map %s", path) : 0;
}

int mf_map_file(const char *path, const char *kind, void **out, size_t *size, struct mf_err *err)
{
    int fd = mf_file_open(path, err);
    if (fd < 0)
        return fd;
    int rc = map(fd, path, kind, out, size, err);
    close(fd);
    return rc;
}
