#include "wire/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/text.h"

enum { PORT_MAX = 65535, IPC_PATH_MAX = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

static const char ipc[] = "ipc://", tcp[] = "tcp://";

bool mf_address_is_socket(const char *text)
{
    return mf_starts(text, ipc) || mf_starts(text, tcp);
}

/* libzmq takes a path that begins with * as a random one, and one that begins with @ as an abstract socket, without an
 * owner. */
static int read_ipc(struct mf_address *a, const char *text, struct mf_err *err)
{
    const char *path = text + strlen(ipc);
    size_t n = strlen(path);
    if (!*path)
        return mf_err_set(err, MF_EUSAGE, "%s has no path: ipc://PATH", text);
    if (n > IPC_PATH_MAX)
        return mf_err_set(err, MF_EUSAGE,
                          "the socket %.200s has a path of %zu bytes and at most %d are possible: choose a shorter one",
                          text, n, IPC_PATH_MAX);
    snprintf(a->endpoint, sizeof a->endpoint, "%s%s%s", ipc, *path == '@' || *path == '*' ? "./" : "", path);
    a->local = true;
    return 0;
}

static int read_port(struct mf_address *a, const char *text, const char *port, bool bind, struct mf_err *err)
{
    size_t digits = strspn(port, "0123456789");
    if (!digits || port[digits])
        return mf_err_set(err, MF_EUSAGE, "%s: '%s' is not a port, a number from 1 to %d", text, port, PORT_MAX);
    a->port = digits > 5 ? PORT_MAX + 1 : atoi(port);
    if (a->port > PORT_MAX)
        return mf_err_set(err, MF_EUSAGE, "%s: port %s is not in 1 to %d", text, port, PORT_MAX);
    if (a->port == 0 && !bind)
        return mf_err_set(
            err, MF_EUSAGE,
            "%s: port 0 is for binding to a free port; to connect, give the port that the other end logged", text);
    return 0;
}

static bool is_loopback(const char *host, bool ipv6)
{
    struct in_addr a;
    struct in6_addr b;
    if (!ipv6)
        return inet_pton(AF_INET, host, &a) == 1 && ntohl(a.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &b) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&b) || (IN6_IS_ADDR_V4MAPPED(&b) && b.s6_addr[12] == 127));
}

/* host: without brackets. */
static int check_host(const char *text, const char *host, bool bracketed, bool bind, struct mf_err *err)
{
    struct in6_addr b;
    char bare[64];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(host, "%"), host); /* fe80::1%eth0 names its interface, too */
    if (!*host)
        return mf_err_set(err, MF_EUSAGE, "%s has no host: tcp://HOST:PORT", text);
    if (bracketed && inet_pton(AF_INET6, bare, &b) != 1)
        return mf_err_set(err, MF_EUSAGE, "%s: '%s' is not an IPv6 address", text, host);
    if (!bracketed && strchr(host, ':'))
        return mf_err_set(err, MF_EUSAGE, "%s: write an IPv6 address in brackets, tcp://[::1]:5555", text);
    if (!bind && !strcmp(host, "*"))
        return mf_err_set(err, MF_EUSAGE, "%s: * is for binding; to connect, name the host", text);
    return 0;
}

static int read_tcp(struct mf_address *a, const char *text, bool bind, struct mf_err *err)
{
    char host[256];
    const char *from = text + strlen(tcp), *colon = strrchr(from, ':');
    const bool bracketed = *from == '[';
    const char *end = bracketed ? strchr(from, ']') : colon;
    if (bracketed && end && !end[1])
        colon = NULL;
    if (!colon || (bracketed && (!end || end + 1 != colon)))
        return mf_err_set(err, MF_EUSAGE, "%s has no port: tcp://HOST:PORT", text);
    from += bracketed;
    if ((size_t)snprintf(host, sizeof host, "%.*s", (int)(end - from), from) >= sizeof host)
        return mf_err_set(err, MF_EUSAGE, "%.80s..: a host name has at most %zu bytes", text, sizeof host - 1);
    int rc = check_host(text, host, bracketed, bind, err);
    if (rc || (rc = read_port(a, text, colon + 1, bind, err)))
        return rc;
    if (!strcasecmp(host, "localhost")) /* which libzmq does not bind, and might resolve to the other family */
        strcpy(host, "127.0.0.1");
    a->tcp = true;
    a->ipv6 = bracketed || !strcmp(host, "*");
    a->local = is_loopback(host, bracketed);
    snprintf(a->endpoint, sizeof a->endpoint, "%s%s%s%s:%d", tcp, bracketed ? "[" : "", host, bracketed ? "]" : "",
             a->port);
    return 0;
}

int mf_address_read(struct mf_address *a, const char *text, bool bind, struct mf_err *err)
{
    *a = (struct mf_address){.port = 0};
    if (mf_starts(text, tcp))
        return read_tcp(a, text, bind, err);
    if (mf_starts(text, ipc))
        return read_ipc(a, text, err);
    return mf_err_set(err, MF_EUSAGE, "'%s' is not a socket address: ipc://PATH or tcp://HOST:PORT", text);
}
