/* fanin - many collectors, made up:
 * fanin frames COLLECTORS MB [ipc|tcp|keys [THREADS]] | fanin policy COLLECTORS MB RELAYS
 *
 * Frames and policy are real, and go over ipc; the environments sleep. frames: each sends its part of so many MB in
 * rollouts of 2048 decisions, over ipc, tcp or tcp with keys, to a reader of wire.threads=THREADS. policy: so many MB
 * to every collector, three versions, by way of relays if they are not 0. One line of key=value words: seconds of
 * processor of the learner's side for a GB that it read or published, or until the last collector has a version (the
 * median), and seconds of processor of the learner.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "stream/frame.h"
#include "wire/edge.h"

enum { VERSIONS = 3, MOST = 4096 };
static const double nap = .02, timeout = 60; /* s */

static char folder[] = "/tmp/mf-fanin-XXXXXX", in[64], policy[64], keys[2][2][64], allowed[64];
static struct mf_wire_opts reader, writer; /* of the port */
static int collectors, told[2];            /* told: a byte for each version that a collector got */

static void must(int rc, const struct mf_err *err)
{
    if (rc < 0) {
        fprintf(stderr, "fanin: error: %s\n", err->text);
        exit(1);
    }
}

static double processor(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void sleep_for(double s)
{
    usleep((useconds_t)(1e6 * s));
}

/* ---- keys ---- */

static void write_key(char path[64], const char *name, const char *key)
{
    snprintf(path, 64, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "%s\n", key) < 0 || chmod(path, 0600) || fclose(f))
        exit(1);
}

/* The reader has the first pair, all writers the second. */
static void make_keys(void)
{
    static const char *const name[2][2] = {{"reader.secret", "reader.public"}, {"writer.secret", "allowed/w.public"}};
    char public[41], secret[41];
    snprintf(allowed, sizeof allowed, "%s/allowed", folder);
    mkdir(allowed, 0700);
    for (int i = 0; i < 2; i++) {
        zmq_curve_keypair(public, secret);
        write_key(keys[i][0], name[i][0], secret);
        write_key(keys[i][1], name[i][1], public);
    }
    reader.secret = keys[0][0];
    reader.allowed = allowed;
    writer.secret = keys[1][0];
    writer.server = keys[0][1];
}

static void remove_keys(void)
{
    for (int i = 0; i < 4 && *allowed; i++)
        unlink(keys[i / 2][i % 2]);
    if (*allowed)
        rmdir(allowed);
}

/* ---- frames ---- */

/* 2048 decisions of lift's size: 128 steps of 16 environments. */
static struct mf_frame *rollout(const char *src)
{
    static const size_t T = 128, N = 16;
    const struct {
        const char *name;
        enum mf_dtype dtype;
        int rank;
        size_t dim[5];
    } a[] = {{"obs/state", MF_F32, 4, {T, N, 1, 19}}, {"actions", MF_F32, 4, {T, N, 4, 4}},
             {"rewards", MF_F32, 3, {T, N, 4}},       {"terminated", MF_U8, 2, {T, N}},
             {"truncated", MF_U8, 2, {T, N}},         {"prev_values", MF_F32, 2, {T, N}},
             {"last_values", MF_F32, 1, {N}},         {"chains", MF_F32, 5, {T, N, 5, 4, 4}},
             {"denoise_inds", MF_I32, 3, {T, N, 4}},  {"prev_logprobs", MF_F32, 2, {T, N}}};
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    struct mf_err err;
    void *data;
    mf_frame_set_int(f, "iter", 0);
    mf_frame_set_str(f, "src", src);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        must(mf_frame_add(f, a[i].name, a[i].dtype, a[i].rank, a[i].dim, &data, &err), &err);
    return f;
}

struct part {
    int number, frames;
};

static void *send_part(void *arg)
{
    const struct part *p = arg;
    struct mf_port *out;
    struct mf_err err;
    char src[16];
    snprintf(src, sizeof src, "c%d", p->number);
    struct mf_frame *f = rollout(src);
    must(mf_port_open(&out, in, MF_OUT, &writer, &err), &err);
    for (int i = 0; i < p->frames; i++) {
        must(mf_frame_send(out, f, &err), &err);
        sleep_for(nap);
    }
    must(mf_port_close(out, &err), &err);
    mf_frame_free(f);
    return NULL;
}

static void frames(double mb)
{
    struct mf_port *port;
    struct mf_err err;
    struct mf_frame *f = rollout("c0");
    void *bytes;
    size_t size, got = 0;
    int here = collectors, rc;
    must(mf_frame_encode(f, &bytes, &size, &err), &err);
    free(bytes);
    mf_frame_free(f);
    const int each = (int)(1e6 * mb / (double)size / collectors) + 1;
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        static pthread_t thread[MOST];
        static struct part part[MOST];
        for (int i = 0; i < collectors; i++) {
            part[i] = (struct part){i, each};
            pthread_create(&thread[i], NULL, send_part, &part[i]);
        }
        for (int i = 0; i < collectors; i++)
            pthread_join(thread[i], NULL);
        _exit(0);
    }
    must(mf_port_open(&port, in, MF_IN, &reader, &err), &err);
    const double since = mf_now(), used = processor();
    while (here) {
        f = NULL;
        must(rc = mf_frame_recv(port, NULL, &f, &err), &err);
        here -= rc == MF_PORT_LEFT;
        got += rc == 1 ? size : 0;
        mf_frame_free(f);
    }
    const double gb = 1e-9 * (double)got;
    printf("collectors=%d gb=%.3f wall_s=%.2f cpu_s_per_gb=%.3f\n", collectors, gb, mf_now() - since,
           (processor() - used) / gb);
    must(mf_port_close(port, &err), &err);
    waitpid(child, NULL, 0);
}

/* ---- the policy ---- */

static const char *served_at(int relay, char address[80])
{
    snprintf(address, 80, relay < 0 ? "%s" : "%s.%d", policy, relay);
    return address;
}

static void *want_all(void *arg)
{
    const struct part *p = arg; /* frames: the number of its relay, or -1 */
    struct mf_edge_client *c;
    struct mf_edge_policy got;
    struct mf_err err;
    char src[16], address[80];
    snprintf(src, sizeof src, "c%d", p->number);
    must(mf_edge_connect(&c, served_at(p->frames, address), NULL, &err), &err);
    for (int v = 0; v <= VERSIONS; v++) {
        must(mf_edge_want(c, src, v, NULL, timeout, &got, &err), &err);
        if (write(told[1], "", 1) != 1)
            exit(1);
    }
    mf_edge_close(c);
    return NULL;
}

static pid_t start_relay(int number)
{
    struct mf_edge_relay *r;
    struct mf_err err;
    char address[80];
    const pid_t child = fork();
    if (child)
        return child;
    must(mf_edge_relay_open(&r, served_at(number, address), policy, NULL, &err), &err);
    int rc;
    while ((rc = mf_edge_relay_work(r, timeout, &err)) == 1)
        continue;
    must(rc, &err);
    mf_edge_relay_close(r);
    _exit(0);
}

static pid_t start_clients(int relays)
{
    static pthread_t thread[MOST];
    static struct part part[MOST];
    const pid_t child = fork();
    if (child)
        return child;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (int i = 0; i < collectors; i++) {
        part[i] = (struct part){i, relays ? i % relays : -1};
        pthread_create(&thread[i], &small, want_all, &part[i]);
    }
    for (int i = 0; i < collectors; i++)
        pthread_join(thread[i], NULL);
    _exit(0);
}

static void wait_for_all(void)
{
    char bytes[MOST];
    for (ssize_t n = 0, more; n < collectors; n += more)
        if ((more = read(told[0], bytes, (size_t)(collectors - n))) <= 0)
            exit(1);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void versions(double mb, int relays)
{
    struct mf_edge_server *e;
    struct mf_err err;
    const size_t size = (size_t)(1e6 * mb);
    const void *bytes = calloc(1, size);
    double took[VERSIONS];
    if (pipe(told))
        exit(1);
    fflush(stdout);
    for (int i = 0; i < relays; i++)
        start_relay(i);
    start_clients(relays);
    must(mf_edge_serve(&e, policy, NULL, 3, &err), &err);
    must(mf_edge_publish(e, 0, 1, &bytes, &size, &err), &err);
    wait_for_all();
    const double used = processor();
    for (int v = 1; v <= VERSIONS; v++) {
        sleep_for(.3);
        const double since = mf_now();
        must(mf_edge_publish(e, v, 1, &bytes, &size, &err), &err);
        wait_for_all();
        took[v - 1] = mf_now() - since;
    }
    qsort(took, VERSIONS, sizeof *took, ascending);
    printf("collectors=%d relays=%d mb=%g last_has_it_s=%.3f cpu_s=%.3f\n", collectors, relays, mb, took[VERSIONS / 2],
           (processor() - used) / VERSIONS);
    mf_edge_finish(e);
    while (wait(NULL) > 0)
        continue;
}

int main(int argc, char **argv)
{
    const bool of_policy = argc == 5 && !strcmp(argv[1], "policy");
    const char *carrier = !of_policy && argc > 4 ? argv[4] : "ipc";
    collectors = argc > 3 ? atoi(argv[2]) : 0;
    if (collectors < 1 || collectors > MOST || !(of_policy || (argc <= 6 && !strcmp(argv[1], "frames"))) ||
        !mkdtemp(folder))
        return 2;
    snprintf(in, sizeof in, "ipc://%s/in", folder);
    if (strcmp(carrier, "ipc") != 0)
        snprintf(in, sizeof in, "tcp://127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    if (!strcmp(carrier, "keys"))
        make_keys();
    reader.threads = !of_policy && argc > 5 ? atoi(argv[5]) : 1;
    reader.patience = writer.patience = timeout;
    snprintf(policy, sizeof policy, "ipc://%s/policy", folder);
    if (of_policy)
        versions(atof(argv[3]), atoi(argv[4]));
    else
        frames(atof(argv[3]));
    remove_keys();
    return rmdir(folder) != 0;
}
