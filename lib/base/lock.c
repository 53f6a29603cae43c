#include "base/lock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"

enum { NOTE = 400 };

enum mf_lock mf_lock_try(int fd)
{
    while (flock(fd, LOCK_EX | LOCK_NB) < 0)
        if (errno != EINTR)
            return errno == EWOULDBLOCK ? MF_LOCK_THEIRS : MF_LOCK_NONE;
    return MF_LOCK_OURS;
}

int mf_lock_wait(int fd, double seconds, enum mf_lock *got, struct mf_err *err)
{
    const double until = mf_now() + seconds;
    int rc = 0;
    while (rc == 0 && (*got = mf_lock_try(fd)) == MF_LOCK_THEIRS && mf_now() < until) {
        poll(NULL, 0, MF_STOP_TICK);
        rc = mf_stop_signal() ? mf_err_set(err, MF_STOPPED, "stopped while another process held the lock") : 0;
    }
    return rc;
}

void mf_lock_leave(int fd)
{
    flock(fd, LOCK_UN);
}

/* The start time, field 22 of /proc/PID/stat: it differs for a later process with the same number. */
static bool note_of(long pid, char note[NOTE])
{
    struct utsname u;
    char path[64], stat[1024];
    unsigned long long began;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(stat, 1, sizeof stat - 1, f) : 0;
    if (f)
        fclose(f);
    stat[n] = '\0';
    const char *at = strrchr(stat, ')'); /* after the process name, which may contain anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%llu", &began) != 1 || uname(&u) < 0)
        return false;
    snprintf(note, NOTE, "%s %ld %llu\n", u.nodename, pid, began);
    return true;
}

void mf_lock_sign(int fd)
{
    char note[NOTE];
    if (note_of(getpid(), note) && ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, note, strlen(note), 0); /* only informative if there are locks */
}

void mf_lock_unsign(int fd)
{
    (void)!ftruncate(fd, 0);
}

bool mf_lock_signer_lives(int fd, bool elsewhere)
{
    char note[NOTE], now[NOTE], host[NOTE];
    long pid;
    struct utsname u;
    const ssize_t n = pread(fd, note, sizeof note - 1, 0);
    note[n > 0 ? n : 0] = '\0';
    if (sscanf(note, "%399s %ld", host, &pid) != 2 || uname(&u) < 0)
        return false;
    return strcmp(host, u.nodename) ? elsewhere : note_of(pid, now) && !strcmp(note, now);
}
