/* tcp_open.c - ranks find each other: all connect to rank 0, which gives them each other's addresses. */
#include <errno.h>
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

enum { MAGIC = 0x6d665232, TICK = 50, HELLO = 2000 /* ms */ };

struct hello { /* the first words on a connection */
    uint32_t magic;
    int32_t rank, n;
};

struct listener { /* where a rank listens */
    struct sockaddr_storage at;
    uint32_t size;
};

struct opening {
    const char *address;
    int n, me, listens, *fd; /* fd: by rank; -1: not yet connected */
    double until, patience;
    struct listener *place; /* by rank */
};

/* ---- sockets ---- */

static int resolve(const struct opening *o, struct addrinfo **list, bool own, struct mf_err *err)
{
    const struct addrinfo how = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (own ? AI_PASSIVE : 0)};
    const char *colon = strrchr(o->address, ':');
    char host[256];
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - o->address) : 0, o->address);
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

static int late(const struct opening *o, int rank, struct mf_err *err)
{
    return mf_stop_caught() ? mf_err_set(err, MF_STOPPED, "stopped while ranks connect")
                            : mf_err_set(err, MF_EIO,
                                         "rank %d of %d did not connect within %g s (MF_RANKS_ADDRESS=%.200s, "
                                         "ranks_timeout=%g)",
                                         rank, o->n, o->patience, o->address, o->patience);
}

static bool in_time(const struct opening *o)
{
    return mf_now() < o->until && !mf_stop_caught();
}

/* All of n bytes, or -1. */
static int carry(int fd, void *bytes, size_t n, bool in)
{
    char *at = bytes;
    for (ssize_t moved; n > 0; at += moved, n -= (size_t)moved) {
        struct pollfd p = {.fd = fd, .events = in ? POLLIN : POLLOUT};
        if (poll(&p, 1, HELLO) <= 0 || (moved = in ? recv(fd, at, n, 0) : send(fd, at, n, MSG_NOSIGNAL)) <= 0)
            return -1;
    }
    return 0;
}

/* ---- connections ---- */

static int greet(struct opening *o, int rank, int fd)
{
    const int yes = 1;
    struct hello h = {MAGIC, o->me, o->n};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (carry(fd, &h, sizeof h, false))
        return -1;
    o->fd[rank] = fd;
    return 0;
}

static int connect_once(struct opening *o, int rank, const struct sockaddr *to, socklen_t size)
{
    const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval most = {.tv_sec = HELLO / 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most); /* of connect, too */
    if (fd >= 0 && connect(fd, to, size) == 0 && greet(o, rank, fd) == 0)
        return 0;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_to_first(struct opening *o, struct mf_err *err)
{
    struct addrinfo *list;
    int rc = resolve(o, &list, false, err);
    if (rc)
        return rc;
    while (o->fd[0] < 0 && in_time(o)) {
        for (const struct addrinfo *a = list; a && o->fd[0] < 0; a = a->ai_next)
            connect_once(o, 0, a->ai_addr, a->ai_addrlen);
        if (o->fd[0] < 0) /* it is not there yet */
            usleep(TICK * 1000);
    }
    freeaddrinfo(list);
    return o->fd[0] < 0 ? late(o, 0, err) : 0;
}

/* A stranger is sent away. */
static void take_one(struct opening *o)
{
    const int yes = 1, fd = accept4(o->listens, NULL, NULL, SOCK_CLOEXEC);
    struct hello h;
    if (fd < 0)
        return;
    if (carry(fd, &h, sizeof h, true) || h.magic != MAGIC || h.n != o->n || h.rank <= o->me || h.rank >= o->n ||
        o->fd[h.rank] >= 0) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    o->fd[h.rank] = fd;
}

/* Ranks above this one connect. */
static int take_all(struct opening *o, struct mf_err *err)
{
    for (int k = o->me + 1; k < o->n; k++)
        while (o->fd[k] < 0) {
            struct pollfd p = {.fd = o->listens, .events = POLLIN};
            if (!in_time(o))
                return late(o, k, err);
            if (poll(&p, 1, TICK) > 0)
                take_one(o);
        }
    return 0;
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
        if (carry(o->fd[k], &o->place[k], sizeof *o->place, true))
            return late(o, k, err);
    for (int k = 1; k < o->n; k++)
        if (carry(o->fd[k], o->place, (size_t)o->n * sizeof *o->place, false))
            return late(o, k, err);
    return 0;
}

/* Rank 0 answers when all are there. */
static int follow(struct opening *o, struct mf_err *err)
{
    int rc = connect_to_first(o, err);
    if (rc || (rc = listen_anywhere(o, err)))
        return rc;
    struct pollfd p = {.fd = o->fd[0], .events = POLLIN};
    if (carry(o->fd[0], &o->place[o->me], sizeof *o->place, false))
        return late(o, 0, err);
    while (poll(&p, 1, TICK) <= 0)
        if (!in_time(o))
            return late(o, 0, err);
    if (carry(o->fd[0], o->place, (size_t)o->n * sizeof *o->place, true))
        return mf_err_set(err, MF_EIO, "rank 0 has ended before all ranks were there");
    for (int k = 1; k < o->me; k++)
        if (connect_once(o, k, (struct sockaddr *)&o->place[k].at, o->place[k].size))
            return late(o, k, err);
    return take_all(o, err);
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
    if (o.listens >= 0)
        close(o.listens);
    free(o.place);
    free(o.fd);
    return rc;
}
