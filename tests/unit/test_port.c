#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stop.h"
#include "tap.h"
#include "wire/port.h"

static char dir[64];
static struct mf_err err;

static const char *path(const char *prefix, const char *name)
{
    static char text[4][128];
    static int turn;
    char *p = text[turn++ % 4];
    snprintf(p, sizeof text[0], "%s%s/%s", prefix, dir, name);
    return p;
}

/* {"mf": "x", "d": bin32 of n bytes that tell their place and the frame's number} */
static uint8_t *frame(size_t n, int number, size_t *len)
{
    static const uint8_t head[] = {0x82, 0xa2, 'm', 'f', 0xa1, 'x', 0xa1, 'd', 0xc6};
    uint8_t *p = malloc(sizeof head + 4 + n);
    memcpy(p, head, sizeof head);
    for (int i = 0; i < 4; i++)
        p[sizeof head + (size_t)i] = (uint8_t)(n >> (24 - 8 * i));
    for (size_t i = 0; i < n; i++)
        p[sizeof head + 4 + i] = (uint8_t)(i * 7 + (size_t)number);
    *len = sizeof head + 4 + n;
    return p;
}

/* Sizes around every border of the buffers, small ones after large ones. */
static const size_t sizes[] = {0, 1, 5, 3000000, 17, 65536, 262144 - 13, 262144, 262144 + 1, 1 << 20, 2, 9000000, 3};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int write_all(const char *address, int rounds)
{
    struct mf_port *out;
    int rc = mf_port_open(&out, address, MF_OUT, &err);
    for (int i = 0; !rc && i < rounds * SIZES; i++) {
        size_t len;
        uint8_t *p = frame(sizes[i % SIZES], i, &len);
        rc = i % 2 ? mf_port_send(out, p, len, &err)
                   : mf_port_sendv(out, (struct iovec[]){{p, 3}, {p + 3, 0}, {p + 3, len - 3}}, 3, &err);
        free(p);
    }
    return rc ? rc : mf_port_close(out, &err);
}

static int read_all(struct mf_port *in, int rounds)
{
    int good = 0;
    for (int i = 0; i < rounds * SIZES; i++) {
        size_t want, len = 0;
        uint8_t *p = frame(sizes[i % SIZES], i, &want);
        const void *data = NULL;
        void *taken = NULL;
        int rc = i % 3 ? mf_port_take(in, NULL, &taken, &len, &err) : mf_port_recv(in, NULL, &data, &len, &err);
        good += rc == 1 && len == want && !memcmp(taken ? taken : data, p, len);
        free(taken);
        free(p);
    }
    const void *data;
    size_t len;
    return good == rounds * SIZES && mf_port_recv(in, NULL, &data, &len, &err) == 0;
}

/* A writer in a process of its own; what it writes must come out whole, also to a reader that starts late. */
static void round_trip(const char *in_address, const char *out_address, const char *what, int late_ms)
{
    struct mf_port *in = NULL;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(write_all(out_address, 2) ? 1 : 0);
    int rc = mf_port_open(&in, in_address, MF_IN, &err);
    usleep((useconds_t)late_ms * 1000);
    ok(rc == 0 && read_all(in, 2), "%s: every frame comes whole, then the end", what);
    int status = 1;
    waitpid(child, &status, 0);
    ok(status == 0, "%s: the writer ends well", what);
    mf_port_drop(in);
}

int main(void)
{
    snprintf(dir, sizeof dir, "/tmp/mf-port-%d", (int)getpid());
    mkdir(dir, 0700);
    mf_stop_catch();
    mkfifo(path("", "fifo"), 0600);
    round_trip(path("", "fifo"), path("", "fifo"), "fifo", 0);
    round_trip(path("ipc://", "a"), path("ipc://", "a"), "ipc, the reader binds", 0);
    round_trip(path(">ipc://", "b"), path("@ipc://", "b"), "ipc, the writer binds", 0);
    round_trip(path("ipc://", "c"), path("ipc://", "c"), "ipc, a late reader", 300);
    round_trip("tcp://127.0.0.1:48713", "tcp://127.0.0.1:48713", "tcp", 0);

    return done();
}
