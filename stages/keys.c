/* mf-keys: generates CURVE key pairs for sockets between hosts. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "stage/stage.h"

enum { KEY = 41 }; /* Z85 with its NUL */

/* A key file is never overwritten, as it may be in use. */
static int write_key(const char *name, const char *kind, const char key[KEY], struct mf_err *err)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s.%s", name, kind) >= (int)sizeof path)
        return mf_err_set(err, MF_EUSAGE, "the path %.80s.. is too long", name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return mf_err_errno(err, "make %s", path);
    bool good = dprintf(fd, "%s\n", key) == KEY;
    if (close(fd) == 0 && good)
        return printf("%s\n", path) < 0 ? mf_err_errno(err, "write <stdout>") : 0;
    int rc = mf_err_errno(err, "write %s", path);
    unlink(path);
    return rc;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    char public[KEY], secret[KEY];
    int n, rc = 0;
    const char *const *name = mf_run_operands(run, &n);
    (void)self;
    if (n == 0)
        return mf_err_set(err, MF_EUSAGE, "give the name of at least one key pair");
    for (int i = 0; i < n && rc == 0; i++) {
        if (zmq_curve_keypair(public, secret) < 0)
            return mf_err_set(err, MF_EDEVICE, "this libzmq has no CURVE: %s", zmq_strerror(zmq_errno()));
        if ((rc = write_key(name[i], "secret", secret, err)) == 0)
            rc = write_key(name[i], "public", public, err);
    }
    memset(secret, 0, sizeof secret);
    return rc;
}

static const struct mf_stage stage = {
    .name = "keys",
    .summary = "Generate pairs of CURVE keys, NAME.secret and NAME.public, for tcp:// between hosts.",
    .operands = "NAME...",
    .examples =
        "  mf-keys learner arm1; mkdir allowed; cp arm1.public allowed    # and carry arm1.* to where it collects\n"
        "  mf-gae --in @tcp://10.0.0.1:5555 wire.secret=learner.secret wire.allowed=allowed | mf-ppo ...\n"
        "  mf-collect --out tcp://10.0.0.1:5555 wire.secret=arm1.secret wire.server=learner.public ...\n",
    .role = MF_TOOL,
    .size = 1,
    .work = work,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
