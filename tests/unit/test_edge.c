/* The policy edge: a server and clients in threads, and the death of either. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/stop.h"
#include "tap.h"
#include "wire/edge_priv.h"

static char folder[] = "/tmp/mf-test-XXXXXX", address[64];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)}, NULL);
}

static int publish(struct mf_edge_server *e, int64_t version, struct mf_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "version %d", (int)version);
    return mf_edge_publish(e, version, 2, (const void *[]){text, "second"}, (size_t[]){strlen(text), 6}, err);
}

static bool is_version(const struct mf_edge_policy *p, int64_t version)
{
    char text[32];
    snprintf(text, sizeof text, "version %d", (int)version);
    return p->version == version && p->n == 2 && p->sizes[0] == strlen(text) &&
           !memcmp(p->parts[0], text, p->sizes[0]) && p->sizes[1] == 6 && !memcmp(p->parts[1], "second", 6);
}

struct job { /* what a client's thread wants, and got */
    const char *src;
    int64_t version;
    double timeout, took;
    struct mf_edge_policy p;
    struct mf_err err;
    int rc;
    bool right;
};

static void *want(void *arg)
{
    struct job *j = arg;
    struct mf_edge_client *c = NULL;
    double start = now();
    j->rc = mf_edge_connect(&c, address, NULL, &j->err);
    if (!j->rc)
        j->rc = mf_edge_want(c, j->src, j->version, NULL, j->timeout, &j->p, &j->err);
    j->right = !j->rc && is_version(&j->p, j->version);
    j->took = now() - start;
    mf_edge_close(c);
    return NULL;
}

static void versions(void)
{
    struct mf_edge_server *e;
    struct mf_edge_client *c;
    struct mf_edge_policy p;
    struct mf_err err = {0};
    ok(mf_edge_serve(&e, address, NULL, 2, &err) == 0, "a server binds %s", err.text);
    struct stat st;
    ok(stat(address + 6, &st) == 0 && (st.st_mode & 0777) == 0600, "the socket is its owner's alone");
    ok(mf_edge_connect(&c, address, NULL, &err) == 0, "a client connects");
    ok(publish(e, 0, &err) == 0 && mf_edge_want(c, "", 0, NULL, 5, &p, &err) == 0 && is_version(&p, 0),
       "version 0 comes");
    ok(p.state == NULL, "without a state");
    ok(mf_edge_want(c, "", 0, NULL, 5, &p, &err) == 0 && is_version(&p, 0), "and again when it is asked for again");

    struct job a = {.version = 3, .src = "a", .timeout = 5}, b = {.version = 3, .src = "b", .timeout = 5};
    pthread_t ta, tb;
    pthread_create(&ta, NULL, want, &a);
    pthread_create(&tb, NULL, want, &b);
    nap(.05);
    publish(e, 2, &err); /* a jump, and not what they want */
    nap(.05);
    publish(e, 3, &err);
    pthread_join(ta, NULL);
    pthread_join(tb, NULL);
    ok(a.right && b.right, "two that wait get their version as soon as it is there");
    ok(a.took > .08 && a.took < .9, "not at the next question, a second later (%.3f s)", a.took);
    ok(mf_edge_want(c, "", 2, NULL, 5, &p, &err) == 0 && is_version(&p, 2), "the one before is kept");
    ok(mf_edge_want(c, "", 0, NULL, 5, &p, &err) == MF_EIO && strstr(err.text, "no longer has version 0") &&
           strstr(err.text, "keeps 2 to 3"),
       "an older one is not: %s", err.text);

    ok(mf_edge_give_state(e, "a", "old", 3, &err) == 0 && mf_edge_give_state(e, "a", "state of a", 10, &err) == 0,
       "a source's state, replaced once");
    publish(e, 4, &err);
    ok(mf_edge_give_state(e, "a", "of the next version", 19, &err) == 0, "(one that is not in force yet)");
    struct job new = {.version = MF_EDGE_NEWEST, .src = "a", .timeout = .4};
    pthread_create(&ta, NULL, want, &new);
    pthread_join(ta, NULL);
    ok(new.rc == MF_EIO, "a joining client waits until it is admitted");
    ok(mf_edge_admit(e, "a", true, &err) == 0 && mf_edge_want(c, "a", MF_EDGE_NEWEST, NULL, 5, &p, &err) == 0 &&
           is_version(&p, 4) && p.state_size == 10 && !memcmp(p.state, "state of a", 10),
       "then it gets the newest version, and its state");
    ok(mf_edge_want(c, "a", 3, NULL, 5, &p, &err) == 0 && !p.state, "a client that is no longer new gets no state");
    ok(mf_edge_admit(e, "b", true, &err) == 0 && mf_edge_want(c, "b", MF_EDGE_NEWEST, NULL, 5, &p, &err) == 0 &&
           !p.state,
       "nor does another source");
    ok(mf_edge_admit(e, "b", false, &err) == 0 && mf_edge_want(c, "b", MF_EDGE_NEWEST, NULL, .4, &p, &err) == MF_EIO,
       "nor does a client that left, before it is admitted again");

    struct job late = {.version = 9, .src = "", .timeout = 5};
    pthread_create(&ta, NULL, want, &late);
    nap(.5); /* its question is there, also on a busy machine */
    mf_edge_finish(e);
    pthread_join(ta, NULL);
    ok(late.rc == MF_EIO && strstr(late.err.text, "ended before it made version 9"), "the end is reported: %s",
       late.err.text);
    mf_edge_close(c);

    late = (struct job){.version = 5, .src = "", .timeout = 5};
    mf_edge_serve(&e, address, NULL, 2, &err);
    pthread_create(&ta, NULL, want, &late);
    nap(.5);
    mf_edge_drop(e);
    mf_edge_serve(&e, address, NULL, 2, &err);
    publish(e, 5, &err);
    pthread_join(ta, NULL);
    ok(late.right, "a dropped server answers nothing, and the next one answers %s", late.rc ? late.err.text : "");
    mf_edge_finish(e);
}

static void big_part(void)
{
    enum { BIG = 64 << 20 };
    struct mf_edge_server *e;
    struct mf_edge_client *c;
    struct mf_edge_policy p;
    struct mf_err err = {0};
    char *big = malloc(BIG);
    memset(big, 7, BIG);
    big[BIG - 1] = 8;
    mf_edge_serve(&e, address, NULL, 1, &err);
    mf_edge_publish(e, 0, 3, (const void *[]){big, "x", big}, (size_t[]){BIG, 1, BIG}, &err);
    mf_edge_connect(&c, address, NULL, &err);
    int rc = mf_edge_want(c, "", 0, NULL, 10, &p, &err);
    ok(rc == 0 && p.n == 3 && p.sizes[0] == BIG && p.sizes[1] == 1 && p.sizes[2] == BIG &&
           ((const char *)p.parts[2])[BIG - 1] == 8 && ((const char *)p.parts[0])[0] == 7,
       "parts of 64 MiB come whole %s", rc ? err.text : "");
    mf_edge_close(c);
    mf_edge_finish(e);
    free(big);
}

/* A server of two versions in a process of its own, so that it can die. Returns when it is bound. */
static pid_t serve_elsewhere(int64_t version)
{
    int ready[2];
    char c;
    if (pipe(ready) < 0)
        return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct mf_edge_server *e;
        struct mf_err err;
        alarm(30); /* whatever becomes of the test */
        if (mf_edge_serve(&e, address, NULL, 2, &err) == 0 && publish(e, version, &err) == 0 &&
            publish(e, version + 1, &err) == 0 && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1)
        ok(false, "the server in another process starts");
    close(ready[0]);
    return pid;
}

static void stop(pid_t pid)
{
    if (pid > 0)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void deaths(void)
{
    struct mf_edge_client *c;
    struct mf_edge_policy p;
    struct mf_err err = {0};
    mf_edge_connect(&c, address, NULL, &err);
    double start = now();
    ok(mf_edge_want(c, "", 0, NULL, .3, &p, &err) == MF_EIO && strstr(err.text, "has been silent for 0.3 s"),
       "no server: %s", err.text);
    ok(now() - start < 3, "after the timeout (%.2f s)", now() - start);

    pid_t pid = serve_elsewhere(1);
    ok(mf_edge_want(c, "", 1, NULL, 5, &p, &err) == 0 && is_version(&p, 1), "a server that comes later is found");
    kill(pid, SIGSTOP);
    waitpid(pid, NULL, WUNTRACED); /* all its threads stand */
    ok(mf_edge_want(c, "", 1, NULL, .5, &p, &err) == MF_EIO && strstr(err.text, "silent"),
       "a server that hangs is silent");
    kill(pid, SIGCONT);
    ok(mf_edge_want(c, "", 2, NULL, 5, &p, &err) == 0 && is_version(&p, 2),
       "its late answer is not taken for the next");
    stop(pid);
    ok(access(address + 6, F_OK) == 0, "a killed server leaves its socket");
    pid = serve_elsewhere(2);
    ok(mf_edge_want(c, "", 2, NULL, 5, &p, &err) == 0 && is_version(&p, 2),
       "the next one replaces it, the client comes back");
    mf_edge_close(c);

    struct job again = {.version = 2, .src = "", .timeout = 5};
    want(&again);
    ok(again.right, "a client that went is replaced by one that comes");
    stop(pid);
}

/* Answered every second, a wait is not silence however long it lasts. */
static void patience(void)
{
    struct mf_edge_server *e;
    struct mf_err err;
    struct job j = {.version = 1, .src = "", .timeout = 1.3};
    pthread_t t;
    mf_edge_serve(&e, address, NULL, 1, &err);
    publish(e, 0, &err);
    pthread_create(&t, NULL, want, &j);
    nap(2.6);
    publish(e, 1, &err);
    pthread_join(t, NULL);
    ok(j.right, "a server that works for twice the timeout is waited for %s", j.rc ? j.err.text : "");
    mf_edge_finish(e);
}

static void strangers(void)
{
    static const struct {
        const char *bytes;
        size_t n;
    } junk[] = {{"", 0},
                {"hello", 5},
                {"\xdf\xff\xff\xff\xff", 5},
                {"\x81\xa2mf\xdb\xff\xff\xff\xff", 9},
                {"\x81\xa3say\xa3gas", 9},
                {"\x81\xa3seq\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 14},
                {"\x81\xa2mf\xa4"
                 "edge",
                 9}};
    struct mf_edge_server *e;
    struct mf_err err;
    mf_edge_serve(&e, address, NULL, 1, &err);
    publish(e, 0, &err);
    void *context = zmq_ctx_new(), *dealer = zmq_socket(context, ZMQ_DEALER);
    int linger = 0, wait = 300;
    char back[256], big[8192] = {0};
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &wait, sizeof wait);
    zmq_connect(dealer, address);
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
        zmq_send(dealer, junk[i].bytes, junk[i].n, i % 2 ? ZMQ_SNDMORE : 0);
    ok(zmq_recv(dealer, back, sizeof back, 0) < 0, "an invalid request is not answered");
    zmq_send(dealer, "\x81\xa3say\xa4want", 10, 0); /* all else by default: version 0 of seq 0 */
    ok(zmq_recv(dealer, back, sizeof back, 0) > 0, "the smallest question is");
    publish(e, 1, &err);
    int rest = 0, more = 1;
    for (size_t size = sizeof more; more && zmq_getsockopt(dealer, ZMQ_RCVMORE, &more, &size) == 0 && more; rest++)
        zmq_recv(dealer, back, sizeof back, 0);
    ok(rest == 2 && zmq_recv(dealer, back, sizeof back, 0) < 0, "once");
    zmq_send(dealer, big, sizeof big, 0); /* disconnects */
    struct job j = {.version = 1, .src = "", .timeout = 5};
    want(&j);
    ok(j.right, "and others do not suffer");
    zmq_close(dealer);
    zmq_ctx_term(context);
    mf_edge_finish(e);
}

static void addresses(void)
{
    char longer[160] = "ipc://";
    struct mf_edge_server *e;
    struct mf_err err = {0};
    memset(longer + 6, 'x', 108);
    ok(mf_edge_serve(&e, longer, NULL, 1, &err) == MF_EUSAGE && strstr(err.text, "108 bytes") &&
           strstr(err.text, "choose a shorter one"),
       "a path that no socket can have: %s", err.text);
    ok(mf_edge_serve(&e, "tcp://0.0.0.0:7", NULL, 1, &err) == MF_EUSAGE && strstr(err.text, "is not local"), "%s",
       err.text);
    struct mf_edge_client *c;
    ok(mf_edge_connect(&c, "tcp://127.0.0.1.example.com:7", NULL, &err) == MF_EUSAGE &&
           strstr(err.text, "is not local"),
       "%s", err.text);
    ok(mf_edge_serve(&e, "run/policy.sock", NULL, 1, &err) == MF_EUSAGE && strstr(err.text, "ipc://"), "%s", err.text);
    close(open(address + 6, O_CREAT | O_WRONLY, 0600));
    ok(mf_edge_serve(&e, address, NULL, 1, &err) == MF_EIO && strstr(err.text, "is not a socket") &&
           access(address + 6, F_OK) == 0,
       "a file that is no socket stays: %s", err.text);
    unlink(address + 6);
}

static void watching(void)
{
    char fifo[64];
    struct mf_port *out;
    struct mf_edge_client *c;
    struct mf_edge_policy p;
    struct mf_err err = {0};
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    mkfifo(fifo, 0600);
    int reader = open(fifo, O_RDONLY | O_NONBLOCK);
    ok(mf_port_open(&out, fifo, MF_OUT, NULL, &err) == 0, "(a port to a pipe)");
    mf_edge_connect(&c, address, NULL, &err);
    ok(mf_edge_want(c, "", 0, out, .2, &p, &err) == MF_EIO, "while its reader lives, the wait continues");
    close(reader);
    double start = now();
    ok(mf_edge_want(c, "", 0, out, 5, &p, &err) == MF_CLOSED, "when it is gone, the wait ends");
    ok(now() - start < 1, "long before the timeout");
    mf_stop_catch();
    raise(SIGTERM);
    ok(mf_edge_want(c, "", 0, NULL, 5, &p, &err) == MF_STOPPED, "so does a signal");
    mf_edge_close(c);
    mf_port_drop(out);
    unlink(fifo);
}

/* Who has asked is refused with its reason, also when it asks again; the others get theirs, and so does a new one that
 * comes by the same name. */
static void refusals(void)
{
    struct mf_edge_server *e;
    struct mf_edge_client *c, *new;
    struct mf_edge_policy p;
    struct mf_err err = {0};
    struct job waits = {.version = 1, .src = "bad", .timeout = 5}, good = {.version = 1, .src = "good", .timeout = 5};
    pthread_t ta, tb;
    alarm(30); /* one that is not told waits for ever */
    mf_edge_serve(&e, address, NULL, 2, &err);
    publish(e, 0, &err);
    mf_edge_connect(&c, address, NULL, &err);
    ok(mf_edge_want(c, "bad", 0, NULL, 5, &p, &err) == 0, "one has its version");
    pthread_create(&ta, NULL, want, &waits);
    pthread_create(&tb, NULL, want, &good);
    nap(.3);
    ok(mf_edge_refuse(e, "bad", "rewards[0,0] is NaN", &err) == 0, "then its name is refused");
    pthread_join(ta, NULL);
    ok(waits.rc == MF_EUSAGE && strstr(waits.err.text, "refused this source: rewards[0,0] is NaN") && waits.took < .9,
       "a waiting client gets the reason: %s", waits.err.text);
    for (int i = 0; i < 2; i++)
        ok(mf_edge_want(c, "bad", 0, NULL, 5, &p, &err) == MF_EUSAGE, "a later request, too: %s", err.text);
    publish(e, 1, &err);
    pthread_join(tb, NULL);
    ok(good.right, "another source gets its version");
    mf_edge_admit(e, "bad", true, &err);
    mf_edge_connect(&new, address, NULL, &err);
    ok(mf_edge_want(new, "bad", MF_EDGE_NEWEST, NULL, 5, &p, &err) == 0 && is_version(&p, 1),
       "one that comes anew by that name is admitted");
    mf_edge_close(new);
    mf_edge_close(c);
    mf_edge_finish(e);
    alarm(0);
}

/* More than any table had places for: each gets the version as soon as it is there. */
static void many(void)
{
    enum { MANY = 400 };
    static void *dealer[MANY];
    void *context = zmq_ctx_new();
    struct mf_edge_server *e;
    struct mf_err err;
    char text[64], back[256];
    int patience = 900, served = 0, linger = 0;
    mf_edge_serve(&e, address, NULL, 2, &err);
    publish(e, 0, &err);
    for (int i = 0; i < MANY; i++) {
        dealer[i] = zmq_socket(context, ZMQ_DEALER);
        zmq_setsockopt(dealer[i], ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt(dealer[i], ZMQ_RCVTIMEO, &patience, sizeof patience);
        zmq_connect(dealer[i], address);
        int n = snprintf(text, sizeof text,
                         "\x84\xa2mf\xa4"
                         "edge\xa3say\xa4want\xa3src\xa4"
                         "c%03d\xa7version\x01",
                         i);
        zmq_send(dealer[i], text, (size_t)n, 0);
        zmq_recv(dealer[i], back, sizeof back, 0); /* wait: it has the question */
    }
    publish(e, 1, &err);
    for (int i = 0; i < MANY; i++) {
        int n = 0;
        while (n >= 0 && !memmem(back, (size_t)n, "policy", 6)) /* signs of life come before */
            n = zmq_recv(dealer[i], back, sizeof back, 0);
        served += n > 0;
    }
    ok(served == MANY, "%d waiting clients get the new version, each", served);
    for (int i = 0; i < MANY; i++)
        zmq_close(dealer[i]);
    zmq_ctx_term(context);
    mf_edge_finish(e);
}

static struct mf_edge_relay *relay;
static struct mf_err relay_err;
static int relay_rc;
static void *relay_on(void *arg)
{
    (void)arg;
    while ((relay_rc = mf_edge_relay_work(relay, .3, &relay_err)) == 1)
        continue;
    return NULL;
}

/* One of 20 asks the learner, which is made up here, for the version; the others for bad news. All get what comes. */
static void relayed(void)
{
    enum { N = 20 };
    char at[80], from[80], text[MF_NOTE_MAX], back[256], id[N][8];
    void *context = zmq_ctx_new(), *learner = zmq_socket(context, ZMQ_ROUTER), *dealer[N];
    int id_size[N], wants = 0, watches = 0, served = 0, told = 0, patience = 2000, linger = 0;
    struct mf_edge_note note[N] = {{.say = MF_EDGE_WAIT}};
    struct mf_err err;
    bool own = false;
    pthread_t t;
    snprintf(from, sizeof from, "ipc://%s/learner", folder);
    snprintf(at, sizeof at, "ipc://%s/relay", folder);
    zmq_setsockopt(learner, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_bind(learner, from);
    ok(mf_edge_relay_open(&relay, at, from, NULL, &err) == 0, "a relay opens");
    pthread_create(&t, NULL, relay_on, NULL);
    for (int i = 0; i < N; i++) {
        struct mf_edge_note want = {.say = MF_EDGE_WANT, .seq = 7, .version = 3};
        snprintf(want.src, sizeof want.src, "c%d", i);
        if (i == 0)
            strcpy(want.src, "relay"); /* a name as any other */
        dealer[i] = zmq_socket(context, ZMQ_DEALER);
        zmq_setsockopt(dealer[i], ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt(dealer[i], ZMQ_RCVTIMEO, &patience, sizeof patience);
        zmq_connect(dealer[i], at);
        zmq_send(dealer[i], text, mf_note_write(&mf_edge_form, &want, text), 0);
    }
    for (int i = 0; i < N; i++) {
        id_size[i] = zmq_recv(learner, id[i], sizeof id[i], 0);
        int n = zmq_recv(learner, text, sizeof text, 0);
        if (n < 0 || !mf_note_read(&mf_edge_form, &note[i], text, (size_t)n))
            break;
        if (note[i].version == MF_EDGE_VERSION_MAX) { /* its own, to hear of the end */
            own |= strcmp(note[i].src, "relay") != 0;
            i--;
            continue;
        }
        wants += note[i].say == MF_EDGE_WANT;
        watches += note[i].say == MF_EDGE_WATCH;
    }
    ok(own, "what it asks for itself has a name that no source has");
    ok(wants == 1 && watches == N - 1, "%d asks for the version, %d watch", wants, watches);
    struct mf_edge_note no = {.say = MF_EDGE_NO, .seq = note[N - 1].seq, .version = 3};
    strcpy(no.src, note[N - 1].src);
    zmq_send(learner, id[N - 1], (size_t)id_size[N - 1], ZMQ_SNDMORE);
    zmq_send(learner, text, mf_note_write(&mf_edge_form, &no, text), 0);
    nap(.2);
    for (int i = 0; i < N; i++) {
        struct mf_edge_note reply = {.say = MF_EDGE_POLICY, .seq = note[i].seq, .version = 3, .parts = 1};
        if (note[i].say != MF_EDGE_WANT)
            continue;
        strcpy(reply.src, note[i].src);
        zmq_send(learner, id[i], (size_t)id_size[i], ZMQ_SNDMORE);
        zmq_send(learner, text, mf_note_write(&mf_edge_form, &reply, text), ZMQ_SNDMORE);
        zmq_send(learner, "weights", 7, 0);
    }
    for (int i = 0; i < N; i++) {
        struct mf_edge_note got = {.say = MF_EDGE_WAIT};
        int n, more = 0;
        size_t size = sizeof more;
        do
            n = zmq_recv(dealer[i], text, sizeof text, 0);
        while (n > 0 && mf_note_read(&mf_edge_form, &got, text, (size_t)n) && got.say == MF_EDGE_WAIT);
        if (n < 0 || got.seq != 7)
            continue;
        told += got.say == MF_EDGE_NO;
        zmq_getsockopt(dealer[i], ZMQ_RCVMORE, &more, &size);
        served += got.say == MF_EDGE_POLICY && got.version == 3 && more &&
                  zmq_recv(dealer[i], back, sizeof back, 0) == 7 && !memcmp(back, "weights", 7);
    }
    ok(served == N - 1 && told == 1, "%d get it, %d the reason for a refusal", served, told);
    for (int i = 0; i < N; i++)
        zmq_close(dealer[i]);
    zmq_setsockopt(learner, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(learner);
    zmq_ctx_term(context);
    pthread_join(t, NULL);
    ok(relay_rc == MF_EIO && strstr(relay_err.text, "is gone for 0.3 s"), "a learner that went without a word: %s",
       relay_err.text);
    mf_edge_relay_close(relay);
    unlink(from + 6);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(address, sizeof address, "ipc://%s/policy.sock", folder);
    deaths(); /* forks: before there are threads */
    versions();
    big_part();
    patience();
    strangers();
    addresses();
    refusals();
    watching();
    many();
    relayed();
    ok(rmdir(folder) == 0, "no socket is left behind");
    return done();
}
