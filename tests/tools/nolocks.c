/* nolocks.c - for LD_PRELOAD: a file system without locks. NOLOCK_ERRNO: how it says so. */
#include <sys/file.h>
#include <errno.h>
#include <stdlib.h>

int flock(int fd, int operation)
{
    const char *code = getenv("NOLOCK_ERRNO");
    (void)fd, (void)operation;
    errno = code ? atoi(code) : ENOLCK;
    return -1;
}
