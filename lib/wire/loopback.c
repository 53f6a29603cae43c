#include "wire/loopback.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

static bool loopback(const char *host_port)
{
    char host[64] = "";
    struct in_addr a;
    const char *colon = strrchr(host_port, ':');
    if (!colon || (size_t)(colon - host_port) >= sizeof host)
        return false;
    memcpy(host, host_port, (size_t)(colon - host_port));
    return !strcmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (inet_pton(AF_INET, host, &a) == 1 && ntohl(a.s_addr) >> 24 == 127);
}

int mf_loopback_check(const char *address, struct mf_err *err)
{
    if (strncmp(address, "tcp://", 6) || loopback(address + 6))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "%s goes beyond this machine, and what travels on TCP is not encrypted: use 127.0.0.1 and an ssh "
                      "tunnel",
                      address);
}
