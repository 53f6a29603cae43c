/* Spellings of ZeroMQ addresses: the address that libzmq gets, or the error. */
#include <string.h>

#include "tap.h"
#include "wire/address.h"

static void reads(const char *text, bool bind, const char *endpoint, bool local, bool ipv6)
{
    struct mf_address a;
    struct mf_err err = {0};
    int rc = mf_address_read(&a, text, bind, &err);
    ok(rc == 0 && !strcmp(a.endpoint, endpoint) && a.local == local && a.ipv6 == ipv6, "%s %s %s", text,
       bind ? "binds" : "connects", endpoint);
    if (rc)
        printf("#   %s\n", err.text);
}

static void refuses(const char *text, bool bind, const char *why)
{
    struct mf_address a;
    struct mf_err err = {0};
    ok(mf_address_read(&a, text, bind, &err) == MF_EUSAGE && strstr(err.text, why), "%s: %s", text, err.text);
}

int main(void)
{
    char longest[200];
    reads("ipc://run/policy.sock", true, "ipc://run/policy.sock", true, false);
    reads("ipc://@run/policy.sock", true, "ipc://./@run/policy.sock", true, false); /* not one without an owner */
    reads("ipc://*run", false, "ipc://./*run", true, false);
    reads("tcp://127.0.0.1:5555", true, "tcp://127.0.0.1:5555", true, false);
    reads("tcp://127.8.7.6:65535", false, "tcp://127.8.7.6:65535", true, false);
    reads("tcp://localhost:5555", true, "tcp://127.0.0.1:5555", true, false);
    reads("tcp://LocalHost:5555", false, "tcp://127.0.0.1:5555", true, false);
    reads("tcp://[::1]:5555", true, "tcp://[::1]:5555", true, true);
    reads("tcp://[0:0:0:0:0:0:0:1]:5555", false, "tcp://[0:0:0:0:0:0:0:1]:5555", true, true);
    reads("tcp://[::ffff:127.0.0.1]:1", false, "tcp://[::ffff:127.0.0.1]:1", true, true);
    reads("tcp://[::ffff:10.0.0.1]:1", false, "tcp://[::ffff:10.0.0.1]:1", false, true);
    reads("tcp://[fe80::1%eth0]:1", false, "tcp://[fe80::1%eth0]:1", false, true);
    reads("tcp://*:5555", true, "tcp://*:5555", false, true);
    reads("tcp://0.0.0.0:5555", true, "tcp://0.0.0.0:5555", false, false);
    reads("tcp://node7.cluster:05555", false, "tcp://node7.cluster:5555", false, false);
    reads("tcp://127.0.0.1.evil.com:5", false, "tcp://127.0.0.1.evil.com:5", false, false);
    reads("tcp://127.0.0.1:0", true, "tcp://127.0.0.1:0", true, false);

    refuses("tcp://127.0.0.1:0", false, "port 0 is for binding");
    refuses("tcp://127.0.0.1:99999", true, "port 99999 is not in 1 to 65535");
    refuses("tcp://127.0.0.1:65536", false, "port 65536");
    refuses("tcp://127.0.0.1:4294967297", false, "port 4294967297");
    refuses("tcp://127.0.0.1", true, "has no port: tcp://HOST:PORT");
    refuses("tcp://[::1]", true, "has no port: tcp://HOST:PORT");
    refuses("tcp://[::1]5", true, "has no port: tcp://HOST:PORT");
    refuses("tcp://", true, "has no port");
    refuses("tcp://127.0.0.1:", true, "'' is not a port");
    refuses("tcp://127.0.0.1:5x", true, "'5x' is not a port");
    refuses("tcp://127.0.0.1:*", true, "'*' is not a port");
    refuses("tcp://127.0.0.1:-1", true, "'-1' is not a port");
    refuses("tcp://:5555", true, "has no host");
    refuses("tcp://::1:5555", true, "write an IPv6 address in brackets");
    refuses("tcp://[1.2.3.4]:5", true, "'1.2.3.4' is not an IPv6 address");
    refuses("tcp://[::1:5", true, "has no port");
    refuses("tcp://*:5555", false, "* is for binding");
    refuses("ipc://", true, "has no path");
    refuses("here", true, "not a socket address");
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "ipc://", 6);
    longest[sizeof longest - 1] = '\0';
    refuses(longest, true, "has a path of 193 bytes and at most 107 are possible");
    return done();
}
