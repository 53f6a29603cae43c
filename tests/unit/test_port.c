#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/stop.h"
#include "tap.h"
#include "wire/port.h"

static char dir[64];
static struct mf_err err;

static int send_whole(struct mf_port *to, const void *data, size_t len, struct mf_err *e)
{
    return mf_port_sendv(to, &(struct iovec){.iov_base = (void *)data, .iov_len = len}, 1, e);
}

/* The result of recv once the only writer has ended. */
static int end_of(const struct mf_port *in)
{
    return mf_port_is_socket(in) ? MF_PORT_LEFT : 0;
}

static const char *path(const char *prefix, const char *name)
{
    static char text[4][128];
    static int turn;
    char *p = text[turn++ % 4];
    snprintf(p, sizeof text[0], "%s%s/%s", prefix, dir, name);
    return p;
}

/* {"mf": "x", "d": bin32 of n bytes that encode their position and the frame's number} */
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
    int rc = mf_port_open(&out, address, MF_OUT, NULL, &err);
    for (int i = 0; !rc && i < rounds * SIZES; i++) {
        size_t len;
        uint8_t *p = frame(sizes[i % SIZES], i, &len);
        rc = i % 2 ? send_whole(out, p, len, &err)
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
    return good == rounds * SIZES && mf_port_recv(in, NULL, &data, &len, &err) == end_of(in);
}

/* A writer in a process of its own; a reader gets its whole output, even if it starts late. */
static void round_trip(const char *in_address, const char *out_address, const char *what, int late_ms)
{
    struct mf_port *in = NULL;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(write_all(out_address, 2) ? 1 : 0);
    int rc = mf_port_open(&in, in_address, MF_IN, NULL, &err);
    usleep((useconds_t)late_ms * 1000);
    ok(rc == 0 && read_all(in, 2), "%s: every frame comes whole, then the end", what);
    int status = 1;
    mf_port_close(in, &err);
    waitpid(child, &status, 0);
    ok(status == 0, "%s: the writer ends well", what);
}

/* ---- incomplete streams ---- */

/* rc of reading `bytes` from a file to its end or to an error; *frames came whole before that. */
static int read_bytes(const void *bytes, size_t n, int *frames)
{
    const char *file = path("", "bytes");
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600), rc;
    struct mf_port *in;
    const void *data;
    size_t len;
    *frames = 0;
    rc = write(fd, bytes, n) == (ssize_t)n && !close(fd) ? mf_port_open(&in, file, MF_IN, NULL, &err) : MF_EIO;
    if (rc)
        return rc;
    while ((rc = mf_port_recv(in, NULL, &data, &len, &err)) == 1)
        ++*frames;
    mf_port_drop(in);
    return rc;
}

static void cut_everywhere(void)
{
    static const uint8_t one[] = {0x85, 0xa2, 'm', 'f',  0xa1, 'x',  0xa1, 'a',  0x92, 0xcd, 1,    2,  0x81, 1,
                                  0xc0, 0xa1, 'b', 0xc7, 2,    9,    1,    2,    0xa1, 'c',  0xcb, 1,  2,    3,
                                  4,    5,    6,   7,    8,    0xa1, 'd',  0xd9, 3,    'x',  'y',  'z'};
    uint8_t three[3 * sizeof one];
    int bad = 0, frames;
    for (int i = 0; i < 3; i++)
        memcpy(three + (size_t)i * sizeof one, one, sizeof one);
    for (size_t n = 0; n <= sizeof three; n++) {
        int rc = read_bytes(three, n, &frames), whole = n % sizeof one == 0;
        bad += frames != (int)(n / sizeof one) || rc != (whole ? 0 : MF_EFORMAT);
        if (!whole)
            bad += !strstr(err.text, "ends inside a frame");
    }
    ok(bad == 0, "a stream cut at any byte gives its complete frames, then an error with the position");
    read_bytes(three, sizeof one + 7, &frames);
    ok(strstr(err.text, "at byte 47") && strstr(err.text, "began at byte 40") && strstr(err.text, dir),
       "with the port and the bytes: %s", err.text);
}

static void refused(const char *what, const void *bytes, size_t n, const char *word)
{
    int frames;
    int rc = read_bytes(bytes, n, &frames);
    ok(rc == MF_EFORMAT && frames == 0 && strstr(err.text, word), "%s: %s", what, rc == MF_EFORMAT ? err.text : "?");
}

static void refusals(void)
{
    uint8_t deep[256];
    struct rusage before, after;
    int frames;
    refused("text", "hello\n", 6, "byte 0 is 0x68");
    refused("a list", "\x90", 1, "byte 0 is 0x90");
    refused("a byte that MessagePack has not", "\x81\xa1x\xc1", 4, "byte 3");
    getrusage(RUSAGE_SELF, &before);
    refused("a bin of 4 GiB", "\x81\xa1x\xc6\xff\xff\xff\xff....", 12, "longer than 1 GiB");
    refused("a list of 4e9", "\x81\xa1x\xdd\xff\xff\xff\xff....", 12, "longer than 1 GiB");
    refused("a map of 2e9 pairs", "\xdf\x7f\xff\xff\xff....", 9, "longer than 1 GiB");
    refused("a bin of 1 GiB that does not come", "\x81\xa1x\xc6\x3f\xff\xff\x00....", 12, "ends inside a frame");
    refused("a list of 5e8 that does not come", "\x81\xa1x\xdd\x1f\xff\xff\x00....", 12, "ends inside a frame");
    getrusage(RUSAGE_SELF, &after);
    ok(after.ru_maxrss - before.ru_maxrss < 8 << 10, "lengths without data take no memory");
    for (size_t i = 0; i < sizeof deep; i += 2)
        memcpy(deep + i, i ? "\x91\x91" : "\x81\xc0", 2);
    refused("a nest of lists", deep, sizeof deep, "nested deeper than 31");
    memcpy(deep + 2 + 30, "\x00", 1);
    ok(read_bytes(deep, 2 + 31, &frames) == 0 && frames == 1, "31 deep is not too deep");
}

static void drip(void)
{
    int fd[2];
    char address[32];
    size_t len, got;
    const void *data = NULL;
    struct mf_port *in = NULL;
    uint8_t *p = frame(2000, 1, &len);
    if (pipe(fd))
        return;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        for (size_t i = 0; i < len; i++)
            if (write(fd[1], p + i, 1) != 1)
                _exit(1);
        _exit(0);
    }
    close(fd[1]);
    snprintf(address, sizeof address, "/proc/self/fd/%d", fd[0]);
    ok(!mf_port_open(&in, address, MF_IN, NULL, &err) && mf_port_recv(in, NULL, &data, &got, &err) == 1 && got == len &&
           !memcmp(data, p, len),
       "a frame that comes byte by byte");
    waitpid(child, NULL, 0);
    close(fd[0]);
    mf_port_drop(in);
    free(p);
}

/* ---- addresses ---- */

static void addresses(void)
{
    struct mf_port *p;
    struct stat st;
    ok(mf_port_open(&p, "tcp://*:48714", MF_IN, NULL, &err) == MF_EUSAGE, "TCP to every address: %s", err.text);
    ok(mf_port_open(&p, ">tcp://127.0.0.1.example.com:1", MF_OUT, NULL, &err) == MF_EUSAGE, "TCP to a name: %s",
       err.text);
    ok(mf_port_open(&p, "udp://127.0.0.1:1", MF_IN, NULL, &err) == MF_EUSAGE, "an unknown carrier: %s", err.text);
    ok(mf_port_open(&p, "@file", MF_IN, NULL, &err) == MF_EUSAGE, "a file cannot be bound: %s", err.text);
    ok(mf_port_open(&p, path("", "none"), MF_IN, NULL, &err) == MF_EIO, "no such file: %s", err.text);
    ok(mf_port_open(&p, path("ipc://", "new/s"), MF_IN, NULL, &err) == MF_EIO && stat(path("", "new"), &st) < 0,
       "a folder that is not there is not made: %s", err.text);
    ok(!mf_port_open(&p, path("ipc://", "s"), MF_IN, NULL, &err) && !stat(path("", "s"), &st) &&
           (st.st_mode & 0777) == 0600,
       "a socket belongs to its owner");
    ok(!strncmp(mf_port_name(p), "ipc://", 6) && !mf_port_is_terminal(p), "a port has a name");
    mf_port_drop(p);
    mf_port_drop(NULL);
    ok(!mf_port_open(&p, "/dev/full", MF_OUT, NULL, &err) && send_whole(p, "\x80", 1, &err) == MF_EIO &&
           strstr(err.text, "No space left"),
       "a full disk: %s", err.text);
    mf_port_drop(p);
}

/* ---- deaths and signals: each in a process that reports its rc ---- */

static int send_for_ever(const char *address)
{
    struct mf_port *out;
    size_t len;
    uint8_t *p = frame(100000, 0, &len);
    int rc = mf_port_open(&out, address, MF_OUT, NULL, &err);
    while (!rc)
        rc = send_whole(out, p, len, &err);
    free(p);
    return rc;
}

static int recv_once(const char *address, struct mf_port *watch)
{
    struct mf_port *in;
    const void *data;
    size_t len;
    int rc = mf_port_open(&in, address, MF_IN, NULL, &err);
    if (rc)
        return rc;
    rc = mf_port_recv(in, watch, &data, &len, &err);
    mf_port_drop(in);
    return rc;
}

static int recv_address(const char *address)
{
    return recv_once(address, NULL);
}

static int open_and_close(const char *address)
{
    struct mf_port *out;
    int rc = mf_port_open(&out, address, MF_OUT, NULL, &err);
    return rc ? rc : mf_port_close(out, &err);
}

/* The rc of job(address) in a child that gets sig after 200 ms; 99 when it is not back in time. */
static int with_patience(int (*job)(const char *), const char *address, int sig, int ms)
{
    int status = 0, ended = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(-job(address));
    usleep(200000);
    if (sig)
        kill(child, sig);
    for (int i = 0; i < ms / 10 && !ended; i++) {
        usleep(10000);
        ended = waitpid(child, &status, WNOHANG) == child;
    }
    if (!ended) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return !ended ? 99 : WIFEXITED(status) ? -WEXITSTATUS(status) : 98;
}

static int with_signal(int (*job)(const char *), const char *address, int sig)
{
    return with_patience(job, address, sig, 5000);
}

static void signals(void)
{
    mkfifo(path("", "idle"), 0600);
    int held = open(path("", "idle"), O_RDWR);
    ok(with_signal(recv_address, path("", "idle"), SIGTERM) == MF_STOPPED, "TERM ends a reader of a FIFO");
    ok(with_patience(recv_address, path("", "idle"), SIGINT, 300) == 99, "INT does not: it drains to the end");
    ok(with_signal(send_for_ever, path("", "idle"), SIGTERM) == MF_STOPPED, "TERM ends a writer whose pipe is full");
    close(held);
    ok(with_signal(open_and_close, path("", "idle"), SIGTERM) == MF_STOPPED, "TERM ends the wait for a FIFO's reader");
    ok(with_signal(recv_address, path("ipc://", "i1"), SIGTERM) == MF_STOPPED, "TERM ends a reader without a peer");
    ok(with_signal(send_for_ever, path("ipc://", "i2"), SIGTERM) == MF_STOPPED, "TERM ends a writer without a peer");
    ok(with_signal(open_and_close, path("ipc://", "i3"), 0) == 0, "a writer that had no peer closes at once");
}

/* A child that holds the other end, and dies by KILL after `ms`. */
static pid_t doomed(int (*job)(const char *), const char *address, int ms)
{
    fflush(stdout);
    pid_t child = fork();
    if (child)
        return child;
    if (fork() == 0) {
        job(address);
        pause();
    }
    usleep((useconds_t)ms * 1000);
    _exit(0);
}

static int read_slowly(const char *address)
{
    struct mf_port *in;
    const void *data;
    size_t len;
    int rc = mf_port_open(&in, address, MF_IN, NULL, &err);
    for (int i = 0; !rc && i < 3; i++)
        rc = mf_port_recv(in, NULL, &data, &len, &err) - 1;
    raise(SIGKILL);
    return rc;
}

static int send_some(const char *address)
{
    struct mf_port *out;
    size_t len;
    uint8_t *p = frame(100, 0, &len);
    int rc = mf_port_open(&out, address, MF_OUT, NULL, &err);
    for (int i = 0; !rc && i < 3; i++)
        rc = send_whole(out, p, len, &err);
    usleep(300000);
    raise(SIGKILL);
    return rc;
}

static int read_to_the_end(const char *address)
{
    struct mf_port *in;
    const void *data;
    size_t len;
    int rc = mf_port_open(&in, address, MF_IN, NULL, &err);
    while (!rc)
        rc = mf_port_recv(in, NULL, &data, &len, &err) - 1;
    return rc == end_of(in) - 1 ? 0 : -99;
}

static void deaths(void)
{
    char to[32];
    int fd[2];
    struct mf_port *out;
    waitpid(doomed(read_slowly, path("ipc://", "d1"), 0), NULL, 0);
    ok(with_signal(send_for_ever, path("ipc://", "d1"), 0) == MF_CLOSED, "ipc: a writer notices that its reader died");
    waitpid(doomed(send_some, path("ipc://", "d2"), 0), NULL, 0);
    ok(with_signal(read_to_the_end, path("ipc://", "d2"), 0) == 0,
       "ipc: for a reader, a dead writer is an end of bytes");
    mkfifo(path("", "d3"), 0600);
    waitpid(doomed(read_slowly, path("", "d3"), 0), NULL, 0);
    ok(with_signal(send_for_ever, path("", "d3"), 0) == MF_CLOSED, "fifo: a writer notices that its reader died");
    if (pipe(fd))
        return;
    snprintf(to, sizeof to, "/proc/self/fd/%d", fd[1]);
    int held = open(path("", "idle"), O_RDWR), rc = mf_port_open(&out, to, MF_OUT, NULL, &err);
    ok(!rc && mf_port_check(out, &err) == 0, "a reader that is there is not gone");
    close(fd[0]);
    ok(mf_port_check(out, &err) == MF_CLOSED, "and then it is");
    ok(recv_once(path("", "idle"), out) == MF_CLOSED,
       "a program that waits for input detects that its output has no reader: %s", err.text);
    ok(recv_once(path("ipc://", "d4"), out) == MF_CLOSED, "also on ZeroMQ");
    mf_port_drop(out);
    close(fd[1]);
    close(held);
}

/* The writer has written and closes before the first read: less than the queues hold, or more. */
static void unread_when_closed(const char *in_address, const char *out_address, int frames)
{
    struct mf_port *in;
    const void *data;
    size_t len;
    int n = 0, status = 1;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        struct mf_port *out;
        uint8_t *p = frame(2000, 0, &len);
        int rc = mf_port_open(&out, out_address, MF_OUT, NULL, &err);
        for (int i = 0; !rc && i < frames; i++)
            rc = send_whole(out, p, len, &err);
        free(p);
        _exit(rc || mf_port_close(out, &err) ? 1 : 0);
    }
    int rc = mf_port_open(&in, in_address, MF_IN, NULL, &err);
    usleep(500000);
    while (!rc && mf_port_recv(in, NULL, &data, &len, &err) == 1)
        n++;
    mf_port_close(in, &err);
    waitpid(child, &status, 0);
    ok(n == frames && status == 0, "%s: nothing is lost when the writer closes before the reader reads (%d of %d)",
       in_address, n, frames);
}

/* ---- a reader that never comes, or has enough ---- */

static void nobody_reads(void)
{
    const struct mf_wire_opts opts = {.meeting = .3};
    struct mf_port *out;
    size_t len;
    uint8_t *p = frame(10, 0, &len);
    int rc = mf_port_open(&out, path("ipc://", "nobody"), MF_OUT, &opts, &err);
    ok(rc == 0 && send_whole(out, p, len, &err) == MF_EIO && strstr(err.text, "no reader at") &&
           strstr(err.text, "for 0.3 s (collect.policy_timeout)"),
       "a writer gives up: %s", err.text);
    mf_port_drop(out);
    free(p);
}

/* Some that say hello and no more, then one that has something to send. 0: it was received; else refused with `why`. */
static int one_more(const char *address, int before, const char *why)
{
    static const char hello[] = "\x83\xa2mf\xa4port\xa3say\xa5hello\xa1v\x01";
    void *context = zmq_ctx_new();
    struct mf_port *out;
    size_t len;
    uint8_t *p = frame(10, 0, &len);
    alarm(30);
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, before + 1);
    for (int i = 0; i < before; i++) {
        void *s = zmq_socket(context, ZMQ_DEALER);
        if (!s || zmq_connect(s, address) || zmq_send(s, "", 0, ZMQ_SNDMORE) ||
            zmq_send(s, hello, sizeof hello - 1, 0) < 0)
            return 1;
    }
    usleep(500000);
    int rc = mf_port_open(&out, address, MF_OUT, NULL, &err);
    for (int i = 0; rc == 0 && i < (why ? 100 : 1); i++) {
        rc = send_whole(out, p, len, &err);
        usleep(20000);
    }
    if (!why)
        return rc ? 1 : mf_port_close(out, &err) != 0;
    return !(rc == MF_EUSAGE && strstr(err.text, why));
}

/* files: the limit of them, 0: as it is; two: the process has another socket. */
static void many_writers(int before, int files, bool two, const char *why)
{
    struct mf_port *in = NULL, *other = NULL;
    const void *data;
    size_t len;
    struct rlimit was, few;
    int status = 1, frames = 0, rc;
    alarm(30); /* one that is not told waits for ever, and so do we */
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(usleep(200000) || one_more(path("ipc://", "full"), before, why));
    getrlimit(RLIMIT_NOFILE, &was);
    few = was;
    if (files)
        few.rlim_cur = few.rlim_max = (rlim_t)files;
    setrlimit(RLIMIT_NOFILE, &few);
    if (two)
        mf_port_open(&other, path("ipc://", "other"), MF_IN, NULL, &err);
    mf_port_open(&in, path("ipc://", "full"), MF_IN, NULL, &err);
    while ((rc = mf_port_recv(in, NULL, &data, &len, &err)) == 1)
        frames++;
    waitpid(child, &status, 0);
    alarm(0);
    mf_port_drop(in);
    mf_port_drop(other);
    setrlimit(RLIMIT_NOFILE, &was);
    ok(frames == !why && status == 0,
       why ? "with %d writers, the limit of open files, the next one is refused: %s"
           : "%d writers and one more: its frame arrives",
       before, why);
}

/* Connections that have ended count no more, also where no later one comes to their socket. */
static void room_again(void)
{
    struct mf_port *one = NULL, *two = NULL;
    const void *data;
    size_t len;
    struct rlimit was, few;
    int status = 1, left = 0, rc;
    alarm(30);
    fflush(stdout);
    pid_t first = fork(), second = first ? fork() : 0;
    if (!first)
        _exit(usleep(200000) || one_more(path("ipc://", "one"), 15, NULL));
    if (!second)
        _exit(sleep(4) || one_more(path("ipc://", "two"), 15, NULL));
    getrlimit(RLIMIT_NOFILE, &was);
    few = was;
    few.rlim_cur = few.rlim_max = 70;
    setrlimit(RLIMIT_NOFILE, &few);
    mf_port_open(&one, path("ipc://", "one"), MF_IN, NULL, &err);
    mf_port_open(&two, path("ipc://", "two"), MF_IN, NULL, &err);
    mf_port_alarm(one, mf_now() + 3.5);
    while ((rc = mf_port_recv(one, NULL, &data, &len, &err)) > 0 && rc != MF_PORT_LATE)
        left += rc == MF_PORT_LEFT;
    while ((rc = mf_port_recv(two, NULL, &data, &len, &err)) > 0 && rc != 1)
        ;
    ok(left == 16 && rc == 1, "16 writers of one socket have left: another one takes as many");
    kill(second, SIGKILL);
    waitpid(first, &status, 0);
    waitpid(second, &status, 0);
    alarm(0);
    mf_port_drop(one);
    mf_port_drop(two);
    setrlimit(RLIMIT_NOFILE, &was);
}

int main(void)
{
    char clean[96];
    snprintf(dir, sizeof dir, "/tmp/mf-port-%d", (int)getpid());
    mkdir(dir, 0700);
    mf_stop_catch();
    mkfifo(path("", "fifo"), 0600);
    cut_everywhere();
    refusals();
    drip();
    addresses();
    round_trip(path("", "fifo"), path("", "fifo"), "fifo", 0);
    round_trip(path("ipc://", "a"), path("ipc://", "a"), "ipc, the reader binds", 0);
    round_trip(path(">ipc://", "b"), path("@ipc://", "b"), "ipc, the writer binds", 0);
    snprintf(clean, sizeof clean, "tcp://127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    round_trip(clean, clean, "tcp", 0);
    for (int frames = 3; frames <= 60; frames += 57) {
        unread_when_closed(path("ipc://", "u"), path("ipc://", "u"), frames);
        unread_when_closed(path(">ipc://", "v"), path("@ipc://", "v"), frames);
    }
    signals();
    deaths();
    nobody_reads();
    many_writers(300, 0, false, NULL);
    many_writers(40, 70, true, "22 connections are all that the limit of open files allows");
    room_again();
    snprintf(clean, sizeof clean, "rm -r %s", dir);
    return system(clean) | done();
}
