/* One writer at a time. Without locks in the file system, no writer is refused, and a note names the writer. */
#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "tap.h"

static int refuses_with; /* errno of a file system without locks; 0: it has them */

/* In front of the C library's. */
int flock(int fd, int op)
{
    if (refuses_with) {
        errno = refuses_with;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, op);
}

static struct mf_err err;

static int again(const char *path)
{
    FILE *f = fopen(path, "r+");
    return f ? fileno(f) : -1;
}

static void note(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void locks(int a, int b)
{
    enum mf_lock got;
    ok(mf_lock_try(a) == MF_LOCK_OURS && mf_lock_try(b) == MF_LOCK_THEIRS,
       "the second process learns that another has the lock");
    ok(mf_lock_wait(b, .15, &got, &err) == 0 && got == MF_LOCK_THEIRS, "it waits so long and not longer");
    pid_t child = fork();
    if (child == 0) { /* the descriptor is shared, the lock goes when nobody has it */
        usleep(200000);
        mf_lock_leave(a);
        _exit(0);
    }
    ok(mf_lock_wait(b, 10, &got, &err) == 0 && got == MF_LOCK_OURS, "and has it when it is left");
    waitpid(child, NULL, 0);
    mf_lock_leave(b);
}

static void none(int a)
{
    static const int codes[] = {ENOLCK, ENOSYS, EOPNOTSUPP, 524, EIO};
    int n = 0;
    for (int i = 0; i < 5; i++) {
        refuses_with = codes[i];
        n += mf_lock_try(a) == MF_LOCK_NONE && errno == codes[i];
    }
    ok(n == 5, "a file system without locks is distinguished from a lock that another holds");
    refuses_with = 0;
}

static void notes(const char *path, int a, int b)
{
    char line[600], host[256];
    ok(!mf_lock_signer_lives(b, true), "no process signed");
    mf_lock_sign(a);
    ok(mf_lock_signer_lives(b, false), "the process that signed is alive");
    mf_lock_unsign(a);
    ok(!mf_lock_signer_lives(b, true), "and has left");
    pid_t child = fork();
    if (child == 0) {
        mf_lock_sign(a);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    ok(!mf_lock_signer_lives(b, true), "a killed process is not alive");
    gethostname(host, sizeof host);
    snprintf(line, sizeof line, "%s %d 1\n", host, (int)getpid());
    note(path, line);
    ok(!mf_lock_signer_lives(b, true), "nor another process of the same number");
    note(path, "node7 1 1\n");
    ok(mf_lock_signer_lives(b, true) && !mf_lock_signer_lives(b, false), "a process of another host is unknown");
    note(path, "nonsense");
    ok(!mf_lock_signer_lives(b, true), "a note that is none");
}

int main(void)
{
    char path[] = "/tmp/mf-lock-XXXXXX";
    int a = mkstemp(path), b = again(path);
    if (a < 0 || b < 0)
        return 1;
    locks(a, b);
    none(a);
    notes(path, a, b);
    return unlink(path) || done();
}
