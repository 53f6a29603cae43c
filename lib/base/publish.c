#include "base/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static bool is_for_files(const char *path, struct mf_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
        return true;
    mf_err_set(err, MF_EUSAGE, "'%s' is %s and cannot be replaced by a file", path,
               S_ISDIR(st.st_mode) ? "a folder" : "a device or a pipe");
    return false;
}

char *mf_publish_part(const char *path, struct mf_err *err)
{
    char *part = mf_xcalloc(strlen(path) + sizeof ".part", 1);
    sprintf(part, "%s.part", path);
    struct stat st; /* a device fails where it is written: a pipe alone is waited for */
    if (is_for_files(path, err) && (stat(part, &st) < 0 || !S_ISFIFO(st.st_mode) || is_for_files(part, err)))
        return part;
    free(part);
    return NULL;
}

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
        int rc = mf_err_errno(err, "cannot write '%s' from '%s'", path, part);
        unlink(part);
        return rc;
    }
    /* The name is on disk once its folder is synced. Some file systems cannot sync a folder; that is ignored. */
    char *copy = mf_xstrdup(path);
    (void)sync_file(dirname(copy), O_RDONLY | O_DIRECTORY);
    free(copy);
    return 0;
}

int mf_publish_bytes(const char *path, const void *bytes, size_t n, struct mf_err *err)
{
    char *part = mf_publish_part(path, err);
    if (!part)
        return err->code;
    FILE *f = fopen(part, "we");
    bool good = f && fwrite(bytes, 1, n, f) == n;
    good = f && fclose(f) == 0 && good;
    int rc = good ? mf_publish(part, path, err) : mf_err_errno(err, "cannot write '%s'", part);
    if (!good)
        unlink(part);
    free(part);
    return rc;
}

int mf_publish_printed(const char *path, FILE *printed, char **text, const size_t *n, struct mf_err *err)
{
    if (!printed)
        return mf_err_errno(err, "memory for '%s'", path);
    int rc = fclose(printed) ? mf_err_errno(err, "memory for '%s'", path) : mf_publish_bytes(path, *text, *n, err);
    free(*text);
    return rc;
}
