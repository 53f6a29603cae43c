#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

int mf_file_open(const char *path, struct mf_err *err)
{
    struct stat st;
    /* Opening a FIFO must not block, nor a terminal become the controlling one; the flags do not affect regular
     * files. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && stat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        return mf_err_set(err, MF_EFORMAT, "%s is a socket, not a regular file", path);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = mf_err_errno(err, "cannot open %s", path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    if (S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return mf_err_set(err, MF_EFORMAT, "%s is %s, not a regular file", path, kind_of(st.st_mode));
}

static FILE *stream_of(int fd, const char *path, struct mf_err *err)
{
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !f) {
        mf_err_errno(err, "cannot open %s", path);
        close(fd);
    }
    return f;
}

FILE *mf_file_read(const char *path, struct mf_err *err)
{
    return stream_of(mf_file_open(path, err), path, err);
}

/* The location is checked after opening, so a link that changes meanwhile does no harm. */
static bool lies_in(int fd, const char *folder)
{
    char link[64], at[PATH_MAX], *real = realpath(folder, NULL);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, at, sizeof at);
    const size_t m = real ? strlen(real) : 0;
    const bool inside = real && n > (ssize_t)m && !memcmp(at, real, m) && (at[m] == '/' || m == 1);
    free(real);
    return inside;
}

FILE *mf_file_read_in(const char *folder, const char *name, struct mf_err *err)
{
    char *path = mf_xcalloc(strlen(folder) + strlen(name) + 2, 1);
    sprintf(path, "%s/%s", folder, name);
    int fd = mf_file_open(path, err);
    if (fd >= 0 && !lies_in(fd, folder)) {
        close(fd);
        fd = mf_err_set(err, MF_EFORMAT, "%s is a link out of %s", path, folder);
    }
    FILE *f = stream_of(fd, path, err);
    free(path);
    return f;
}

bool mf_file_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int mf_file_apart(const char *in, const char *out, struct mf_err *err)
{
    struct stat st;
    const bool lost = mf_file_same(in, out) && stat(out, &st) == 0 && S_ISREG(st.st_mode);
    return lost ? mf_err_set(err, MF_EUSAGE, "%s is read, and would be written over: give the output another name", out)
                : 0;
}

int mf_file_once(int n, const char *const *path, struct mf_err *err)
{
    int rc = 0;
    for (int i = 1; i < n; i++)
        for (int k = 0; k < i && rc == 0; k++)
            if (mf_file_same(path[k], path[i]))
                rc = strcmp(path[k], path[i]) != 0
                         ? mf_err_set(err, MF_EUSAGE, "%s and %s are the same: give it once", path[k], path[i])
                         : mf_err_set(err, MF_EUSAGE, "%s is there twice: give it once", path[i]);
    return rc;
}
