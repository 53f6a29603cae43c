/* tcp_open.c - ranks find each other: all connect to rank 0, which gives them each other's addresses. */
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "ranks/ranks.h"
#include "ranks/tcp.h"

enum { MAGIC = 0x6d665233, TICK = 5, CONNECT = 2000 /* ms */, UNKNOWN = 64 /* connections */ };

struct hello { /* the first words on a connection, and their answer: a socket may meet strangers, or itself */
    uint32_t magic;
    int32_t rank, n; /* n is 0 in the answer to a rank that is there already */
};

struct listener { /* where a rank listens */
    struct sockaddr_storage at;
    uint32_t size;
};

struct opening {
    const char *address;
    int n, me, listens, *fd;         /* fd: by rank; -1: not yet connected */
    int unknown[UNKNOWN], n_unknown; /* connections that have not said which rank they are */
    double until, patience;
    struct listener *place; /* by rank */
};

/* ---- sockets ---- */

static int resolve(const struct opening *o, struct addrinfo **list, bool own, struct mf_err *err)
{
    const struct addrinfo how = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (own ? AI_PASSIVE : 0)};
    const char *colon = strrchr(o->address, ':');
    const bool brackets = colon && *o->address == '[' && colon[-1] == ']';
    char host[256];
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - o->address) - 2 * brackets : 0, o->address + brackets);
    const long port = colon ? strtol(colon + 1, NULL, 10) : 0; /* getaddrinfo takes 99999 */
    int rc = *host && port > 0 && port < 1 << 16 ? getaddrinfo(host, colon + 1, &how, list) : EAI_NONAME;
    return rc ? mf_err_set(err, MF_EUSAGE, "MF_RANKS_ADDRESS=%.200s: no address of rank 0 as HOST:PORT: %s", o->address,
                           gai_strerror(rc))
              : 0;
}

static int listen_at(struct opening *o, const struct sockaddr *at, socklen_t size)
{
    const int yes = 1;
    o->listens = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(o->listens, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return bind(o->listens, at, size) || listen(o->listens, MF_RANKS_MOST) ? -1 : 0;
}

/* The port of the address 0: any. On the interface by which rank 0 is reached. */
static int listen_anywhere(struct opening *o, struct mf_err *err)
{
    struct listener *p = &o->place[o->me];
    socklen_t size = sizeof p->at;
    getsockname(o->fd[0], (struct sockaddr *)&p->at, &size);
    if (p->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&p->at)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&p->at)->sin_port = 0;
    if (listen_at(o, (struct sockaddr *)&p->at, size))
        return mf_err_errno(err, "rank %d cannot listen for the other ranks", o->me);
    getsockname(o->listens, (struct sockaddr *)&p->at, &size);
    p->size = size;
    return 0;
}

static bool in_time(const struct opening *o)
{
    return mf_now() < o->until && !mf_stop_caught();
}

/* A rank that is late, or has ended. */
static int lacks(const struct opening *o, int rank, struct mf_err *err)
{
    if (mf_stop_caught())
        return mf_err_set(err, MF_STOPPED, "stopped while ranks connect");
    if (in_time(o))
        return mf_err_set(err, MF_EIO, "rank %d has ended before all ranks were there", rank);
    return mf_err_set(err, MF_EIO,
                      "rank %d of %d did not connect within %g s (MF_RANKS_ADDRESS=%.200s, ranks_timeout=%g)", rank,
                      o->n, o->patience, o->address, o->patience);
}

/* All of n bytes, or -1. */
static int carry(const struct opening *o, int fd, void *bytes, size_t n, bool in)
{
    char *at = bytes;
    while (n > 0 && in_time(o)) {
        struct pollfd p = {.fd = fd, .events = in ? POLLIN : POLLOUT};
        if (poll(&p, 1, TICK) <= 0)
            continue;
        const ssize_t moved = in ? recv(fd, at, n, MSG_DONTWAIT) : send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (moved < 0 && errno == EAGAIN)
            continue;
        if (moved <= 0)
            return -1;
        at += moved, n -= (size_t)moved;
    }
    return n ? -1 : 0;
}

/* Without delay; and of a host that is gone without a word the system tells, also where a rank waits without limit. */
static void tune(const struct opening *o, int fd)
{
    const int yes = 1, probes = 4, most = (int)fmin(fmax(o->patience, 8), 3600), idle = most / 2, between = most / 8;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* ---- connections ---- */

/* MF_EIO: what listens there is not that rank, or not yet. */
static int greet(struct opening *o, int rank, int fd, struct mf_err *err)
{
    struct hello h = {MAGIC, o->me, o->n};
    tune(o, fd);
    if (carry(o, fd, &h, sizeof h, false) || carry(o, fd, &h, sizeof h, true) || h.magic != MAGIC || h.rank != rank)
        return MF_EIO;
    if (h.n == 0)
        return mf_err_set(err, MF_EUSAGE, "rank %d has another rank %d: give each process a MF_RANK of its own", rank,
                          o->me);
    if (h.n != o->n)
        return mf_err_set(err, MF_EUSAGE, "MF_RANKS=%d, but rank %d has MF_RANKS=%d: give all processes the same", o->n,
                          rank, h.n);
    o->fd[rank] = fd;
    return 0;
}

static int connect_once(struct opening *o, int rank, const struct sockaddr *to, socklen_t size, struct mf_err *err)
{
    const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval most = {.tv_sec = CONNECT / 1000};
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* a socket that met itself leaves the port to rank 0 */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most); /* of connect, too */
    int rc = fd < 0 || connect(fd, to, size) ? MF_EIO : greet(o, rank, fd, err);
    if (rc && fd >= 0)
        close(fd);
    if (rc == MF_EIO)
        usleep(50000);
    return rc;
}

static int connect_to_first(struct opening *o, struct mf_err *err)
{
    struct addrinfo *list;
    int rc = resolve(o, &list, false, err);
    if (rc)
        return rc;
    const struct addrinfo *a = list;
    while ((rc = connect_once(o, 0, a->ai_addr, a->ai_addrlen, err)) == MF_EIO && in_time(o))
        a = a->ai_next ? a->ai_next : list;
    freeaddrinfo(list);
    return rc == MF_EIO ? lacks(o, 0, err) : rc;
}

static bool has_ended(int fd)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLRDHUP}, 1, 0) > 0;
}

/* Answers a rank; false: it is a stranger, or no use. One that has ended may start again. */
static bool welcome(struct opening *o, int fd, const struct hello *h)
{
    const bool asks = h->magic == MAGIC && h->rank > o->me, own = asks && h->n == o->n && h->rank < o->n;
    const bool again = own && o->fd[h->rank] >= 0, fits = own && (!again || has_ended(o->fd[h->rank]));
    struct hello answer = {MAGIC, o->me, own && !fits ? 0 : o->n};
    if (!asks || send(fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof answer || !fits)
        return false;
    if (again)
        close(o->fd[h->rank]);
    tune(o, fd);
    o->fd[h->rank] = fd;
    return true;
}

/* Those who have said who they are. The others may yet do so, and nobody waits for them. */
static void hear(struct opening *o)
{
    int left = 0;
    for (int i = 0; i < o->n_unknown; i++) {
        const int fd = o->unknown[i];
        struct hello h;
        const ssize_t n = recv(fd, &h, sizeof h, MSG_PEEK | MSG_DONTWAIT);
        if ((n < 0 && errno == EAGAIN) || (n > 0 && n < (ssize_t)sizeof h))
            o->unknown[left++] = fd;
        else if (n <= 0 || recv(fd, &h, sizeof h, 0) != sizeof h || !welcome(o, fd, &h))
            close(fd);
    }
    o->n_unknown = left;
}

/* The oldest gives way. */
static int take_some(struct opening *o, struct mf_err *err)
{
    struct pollfd p = {.fd = o->listens, .events = POLLIN};
    if (poll(&p, 1, TICK) > 0) {
        const int fd = accept4(o->listens, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return mf_err_errno(err, "rank %d of %d cannot take the connections of the others", o->me, o->n);
        if (fd >= 0 && o->n_unknown == UNKNOWN) {
            close(o->unknown[0]);
            memmove(o->unknown, o->unknown + 1, --o->n_unknown * sizeof *o->unknown);
        }
        if (fd >= 0)
            o->unknown[o->n_unknown++] = fd;
    }
    hear(o);
    return 0;
}

/* Ranks above this one connect. */
static int take_all(struct opening *o, struct mf_err *err)
{
    int rc = 0;
    for (int k = o->me + 1; rc == 0 && k < o->n; k++)
        while (rc == 0 && o->fd[k] < 0)
            rc = in_time(o) ? take_some(o, err) : lacks(o, k, err);
    return rc;
}

/* ---- in order ---- */

static int lead(struct opening *o, struct mf_err *err)
{
    struct addrinfo *list;
    int rc = resolve(o, &list, true, err);
    if (rc)
        return rc;
    if (listen_at(o, list->ai_addr, list->ai_addrlen))
        rc = mf_err_errno(err, "MF_RANKS_ADDRESS=%.200s: rank 0 cannot listen there", o->address);
    freeaddrinfo(list);
    if (rc || (rc = take_all(o, err)))
        return rc;
    for (int k = 1; k < o->n; k++)
        if (carry(o, o->fd[k], &o->place[k], sizeof *o->place, true))
            return lacks(o, k, err);
    for (int k = 1; k < o->n; k++)
        if (carry(o, o->fd[k], o->place, (size_t)o->n * sizeof *o->place, false))
            return lacks(o, k, err);
    return 0;
}

/* Rank 0 answers when all are there. */
static int follow(struct opening *o, struct mf_err *err)
{
    int rc = connect_to_first(o, err);
    if (rc || (rc = listen_anywhere(o, err)))
        return rc;
    if (carry(o, o->fd[0], &o->place[o->me], sizeof *o->place, false) ||
        carry(o, o->fd[0], o->place, (size_t)o->n * sizeof *o->place, true))
        return lacks(o, 0, err);
    for (int k = 1; rc == 0 && k < o->me; k++) {
        const struct listener *p = &o->place[k];
        do
            rc = connect_once(o, k, (const struct sockaddr *)&p->at, p->size, err);
        while (rc == MF_EIO && in_time(o));
        rc = rc == MF_EIO ? lacks(o, k, err) : rc;
    }
    return rc ? rc : take_all(o, err);
}

int mf_tcp_open(void **self, const char *address, int n, int me, double patience, struct mf_err *err)
{
    struct opening o = {
        .address = address, .n = n, .me = me, .listens = -1, .until = mf_now() + patience, .patience = patience};
    o.fd = mf_xcalloc((size_t)n, sizeof *o.fd);
    o.place = mf_xcalloc((size_t)n, sizeof *o.place);
    for (int k = 0; k < n; k++)
        o.fd[k] = -1;
    int rc = me ? follow(&o, err) : lead(&o, err);
    if (rc == 0)
        *self = mf_tcp_on(o.fd, n, me);
    for (int k = 0; rc && k < n; k++)
        if (o.fd[k] >= 0)
            close(o.fd[k]);
    for (int i = 0; i < o.n_unknown; i++)
        close(o.unknown[i]);
    if (o.listens >= 0)
        close(o.listens);
    free(o.place);
    free(o.fd);
    return rc;
}
