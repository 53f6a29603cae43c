#include "wire/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "base/mem.h"
#include "wire/curve.h"

static const char monitor_address[] = "inproc://monitor"; /* a context per socket */

/* Checks whether the other end is allowed. */
static int check_keys(const struct mf_address *a, const char *address, bool bind, const struct mf_wire_opts *o,
                      struct mf_err *err)
{
    const bool keys = o && o->secret;
    if (a->tcp && keys && (bind ? !o->allowed : !o->server))
        return mf_err_set(err, MF_EUSAGE,
                          bind ? "%s: with wire.secret give wire.allowed too, the folder of the clients' public keys"
                               : "%s: with wire.secret give wire.server too, the server's public key",
                          address);
    if (a->local || keys)
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "%s is not local and needs keys: generate them with mf-keys and give wire.secret and %s, or use "
                      "127.0.0.1 and an ssh tunnel",
                      address, bind ? "wire.allowed" : "wire.server");
}

static int fail(const struct mf_socket *s, const char *what, struct mf_err *err)
{
    return mf_err_set(err, MF_EIO, "cannot %s %s: %s", what, s->name, zmq_strerror(errno));
}

enum { NEEDED = 16 }; /* file descriptors of a socket, and so many are left to the rest of the program */

static atomic_int sockets, connections; /* of this process: the limit is its own */

static int most(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX)
        return INT_MAX;
    const int left = (int)files.rlim_cur - NEEDED * (sockets + 1);
    return left > NEEDED ? left : NEEDED;
}

void mf_socket_count(struct mf_socket *s, int peers)
{
    connections += peers - s->peers;
    s->peers = peers;
}

bool mf_socket_has_room(struct mf_socket *s, int peers)
{
    mf_socket_count(s, peers);
    return connections < most();
}

void mf_socket_full(char *why, size_t size)
{
    snprintf(why, size, "%d connections are all that the limit of open files allows: raise ulimit -n", most());
}

static void raise_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* libzmq aborts the process if it gets no descriptor. */
static int check_descriptors(const char *address, struct mf_err *err)
{
    int fd[NEEDED], n = 0;
    while (n < NEEDED && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        close(fd[i]);
    return n == NEEDED ? 0
                       : mf_err_set(err, MF_EIO, "cannot open %s: a socket takes %d file descriptors (ulimit -n)",
                                    address, NEEDED);
}

void mf_socket_set(struct mf_socket *s, int option, int value)
{
    zmq_setsockopt(s->socket, option, &value, sizeof value);
}

int mf_socket_open(struct mf_socket *s, int type, const char *address, bool bind, const struct mf_wire_opts *o,
                   int64_t max_bytes, struct mf_err *err)
{
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    *s = (struct mf_socket){.name = mf_xstrdup(address), .binds = bind};
    sockets++;
    int rc = mf_address_read(&s->at, address, bind, err);
    if (bind)
        raise_limit();
    if (rc || (rc = check_keys(&s->at, address, bind, o, err)) || (rc = check_descriptors(address, err)))
        return rc;
    if (!(s->context = zmq_ctx_new()) ||
        zmq_ctx_set(s->context, ZMQ_IO_THREADS, o && o->threads > 0 ? (int)o->threads : 1) < 0 ||
        !(s->socket = zmq_socket(s->context, type)) || !(s->monitor = zmq_socket(s->context, ZMQ_PAIR)) ||
        zmq_socket_monitor(s->socket, monitor_address, events) < 0 || zmq_connect(s->monitor, monitor_address) < 0)
        return fail(s, "open a socket for", err);
    mf_socket_set(s, ZMQ_IPV6, s->at.ipv6);
    mf_socket_set(s, ZMQ_LINGER, 2000);
    mf_socket_set(s, ZMQ_HEARTBEAT_IVL, 2000);
    mf_socket_set(s, ZMQ_HEARTBEAT_TIMEOUT, 10000);
    zmq_setsockopt(s->socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    return s->at.tcp && o && o->secret ? mf_curve_lock(s, bind, o, err) : 0;
}

static bool somebody_listens(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    bool taken = fd >= 0 && (connect(fd, (const struct sockaddr *)&a, sizeof a) == 0 || errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return taken;
}

/* libzmq unlinks any file at an ipc path before it binds, so only a stale socket is allowed there. */
static int make_way(const char *address, const char *path, struct mf_err *err)
{
    struct stat st;
    char *copy = mf_xstrdup(path), *folder = dirname(copy);
    const bool nowhere = stat(folder, &st) < 0 && errno == ENOENT;
    if (nowhere)
        mf_err_set(err, MF_EIO, "cannot bind %s: there is no folder %s; create it first", address, folder);
    free(copy);
    if (nowhere)
        return err->code;
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return mf_err_set(err, MF_EIO, "cannot bind %s: the path exists and is not a socket", address);
    if (somebody_listens(path))
        return mf_err_set(err, MF_EIO, "cannot bind %s: %s", address, strerror(EADDRINUSE));
    return 0;
}

/* Logs the port, for use at the other end. */
static void say_port(const struct mf_socket *s)
{
    char bound[256];
    size_t n = sizeof bound;
    if (zmq_getsockopt(s->socket, ZMQ_LAST_ENDPOINT, bound, &n) == 0)
        mf_log(MF_LOG_INFO, "%s is bound to %s", s->name, bound);
}

int mf_socket_attach(struct mf_socket *s, struct mf_err *err)
{
    struct stat st;
    const char *path = s->at.tcp ? NULL : s->at.endpoint + strlen("ipc://");
    if (!s->binds)
        return zmq_connect(s->socket, s->at.endpoint) < 0 ? fail(s, "connect to", err) : 0;
    int rc = path ? make_way(s->name, path, err) : 0;
    if (rc)
        return rc;
    if (zmq_bind(s->socket, s->at.endpoint) < 0)
        return fail(s, "bind", err);
    if (s->at.tcp && s->at.port == 0)
        say_port(s);
    if (path && (chmod(path, 0600) < 0 || stat(path, &st) < 0))
        return mf_err_errno(err, "chmod %s", path);
    if (path) {
        s->path = mf_xstrdup(path);
        s->inode = st.st_ino;
    }
    return 0;
}

/* Pairs of {event u16, value u32} and an address. */
bool mf_socket_event(struct mf_socket *s, enum mf_socket_event *event)
{
    zmq_msg_t m;
    uint16_t what = 0;
    bool came = false;
    zmq_msg_init(&m);
    while (!came && zmq_msg_recv(&m, s->monitor, ZMQ_DONTWAIT) >= 0) {
        if (zmq_msg_size(&m) != sizeof what + sizeof(uint32_t) || !zmq_msg_more(&m))
            continue;
        memcpy(&what, zmq_msg_data(&m), sizeof what);
        came = true;
        *event = what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED         ? MF_SOCKET_UP
                 : what == ZMQ_EVENT_DISCONNECTED              ? MF_SOCKET_DOWN
                 : what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH     ? MF_SOCKET_REFUSED
                 : what == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ? MF_SOCKET_MISMATCH
                                                               : MF_SOCKET_CUT;
    }
    zmq_msg_close(&m);
    return came;
}

int mf_socket_refused(struct mf_socket *s, enum mf_socket_event event, struct mf_err *err)
{
    enum { CUTS = 3 };
    s->met |= event == MF_SOCKET_UP;
    if (s->binds)
        return 0;
    if (event == MF_SOCKET_REFUSED)
        return mf_err_set(err, MF_EUSAGE, "%s refused the connection: this end's public key is not in its wire.allowed",
                          s->name);
    if (s->met || (event != MF_SOCKET_MISMATCH && (event != MF_SOCKET_CUT || ++s->cuts < CUTS)))
        return 0; /* libzmq does not reconnect after a mismatch */
    return mf_err_set(err, MF_EUSAGE,
                      "the keys of %s and of this end do not match: is wire.server its public key, and do both ends "
                      "have keys, or neither?",
                      s->name);
}

void mf_socket_log_mismatch(struct mf_socket *s)
{
    mf_log_rarely(&s->mismatches, MF_LOG_WARN, "%s: refused a peer: it has no key, or expects another server's key",
                  s->name);
}

void mf_socket_close(struct mf_socket *s, int linger_ms)
{
    struct stat st;
    sockets -= s->name != NULL;
    connections -= s->peers;
    if (s->socket) {
        mf_socket_set(s, ZMQ_LINGER, linger_ms);
        zmq_close(s->socket);
    }
    if (s->monitor)
        zmq_close(s->monitor);
    if (s->context)
        zmq_ctx_term(s->context);
    mf_curve_unlock(s);
    if (s->path && stat(s->path, &st) == 0 && st.st_ino == s->inode)
        unlink(s->path);
    free(s->path);
    free(s->name);
    *s = (struct mf_socket){.name = NULL};
}
