#include "wire/curve.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

enum { KEY_BYTES = 32, PARTS = 7 }; /* of a request: version, id, domain, address, identity, mechanism, key */

struct mf_doorman {
    pthread_t thread;
    void *door; /* where libzmq asks, inproc://zeromq.zap.01: RFC 27 */
    char *name, *allowed;
    struct mf_rarely refusals;
};

int mf_curve_read(const char *path, bool secret, char key[MF_KEY_SIZE], struct mf_err *err)
{
    uint8_t bytes[KEY_BYTES];
    struct stat st;
    char text[64];
    FILE *f = mf_file_read(path, err);
    if (!f)
        return mf_err_at(err, "the key");
    bool safe = !secret || (fstat(fileno(f), &st) == 0 && !(st.st_mode & 077));
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    text[strcspn(text, "\r\n")] = 0;
    if (!safe)
        return mf_err_set(err, MF_EUSAGE, "other users can read the secret key %s: chmod 600 it", path);
    if (strlen(text) != MF_KEY_SIZE - 1 || !zmq_z85_decode(bytes, text))
        return mf_err_set(err, MF_EUSAGE, "%s is not a key: it must be one line of 40 characters, as mf-keys writes it",
                          path);
    memcpy(key, text, MF_KEY_SIZE);
    return 0;
}

/* Is this key in the folder? Files that are not keys are ignored. */
static bool knows(const struct mf_doorman *d, const char *key)
{
    char path[1024], one[MF_KEY_SIZE];
    struct mf_err ignored;
    bool found = false;
    DIR *dir = opendir(d->allowed);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n > 7 && !strcmp(e->d_name + n - 7, ".public") &&
            snprintf(path, sizeof path, "%s/%s", d->allowed, e->d_name) < (int)sizeof path)
            found = mf_curve_read(path, false, one, &ignored) == 0 && !strcmp(one, key);
    }
    if (dir)
        closedir(dir);
    return found;
}

static void answer(struct mf_doorman *d, zmq_msg_t part[PARTS])
{
    char key[MF_KEY_SIZE] = "?";
    if (zmq_msg_size(&part[6]) == KEY_BYTES)
        zmq_z85_encode(key, zmq_msg_data(&part[6]), KEY_BYTES);
    bool good = knows(d, key);
    if (!good)
        mf_log_rarely(&d->refusals, MF_LOG_WARN, "%s: refused %.*s: its key %s is not in %s", d->name,
                      (int)zmq_msg_size(&part[3]), (const char *)zmq_msg_data(&part[3]), key, d->allowed);
    zmq_send(d->door, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(d->door, zmq_msg_data(&part[1]), zmq_msg_size(&part[1]), ZMQ_SNDMORE);
    zmq_send(d->door, good ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(d->door, "", 0, ZMQ_SNDMORE);
    zmq_send(d->door, "", 0, ZMQ_SNDMORE);
    zmq_send(d->door, "", 0, 0);
}

/* Ends with the context. */
static void *keep_door(void *arg)
{
    struct mf_doorman *d = arg;
    for (bool open = true; open;) {
        zmq_msg_t part[PARTS];
        int n = 0;
        for (int i = 0; i < PARTS; i++)
            zmq_msg_init(&part[i]);
        do
            open = zmq_msg_recv(&part[n], d->door, 0) >= 0 || errno != ETERM;
        while (open && zmq_msg_more(&part[n]) && n++ < PARTS - 1);
        if (open && n == PARTS - 1)
            answer(d, part);
        for (int i = 0; i < PARTS; i++)
            zmq_msg_close(&part[i]);
    }
    zmq_close(d->door);
    return NULL;
}

static int post_doorman(struct mf_socket *s, const char *allowed, struct mf_err *err)
{
    struct stat st;
    if (stat(allowed, &st) < 0 || !S_ISDIR(st.st_mode))
        return mf_err_set(err, MF_EUSAGE,
                          "wire.allowed=%s is not a folder: create it, with the NAME.public of each client", allowed);
    struct mf_doorman *d = s->doorman = mf_xcalloc(1, sizeof *d);
    d->name = mf_xstrdup(s->name);
    d->allowed = mf_xstrdup(allowed);
    d->door = zmq_socket(s->context, ZMQ_REP);
    if (d->door && zmq_bind(d->door, "inproc://zeromq.zap.01") == 0) {
        sigset_t all, before; /* signals are the main thread's */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        errno = pthread_create(&d->thread, NULL, keep_door, d);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (errno == 0)
            return 0;
    }
    int rc = mf_err_set(err, MF_EIO, "cannot check keys at %s: %s", s->name, zmq_strerror(errno));
    if (d->door)
        zmq_close(d->door);
    d->door = NULL;
    return rc;
}

int mf_curve_lock(struct mf_socket *s, bool bind, const struct mf_wire_opts *o, struct mf_err *err)
{
    char secret[MF_KEY_SIZE], public[MF_KEY_SIZE], server[MF_KEY_SIZE];
    int rc = mf_curve_read(o->secret, true, secret, err);
    if (rc == 0 && !bind)
        rc = mf_curve_read(o->server, false, server, err);
    if (rc == 0 && bind)
        rc = post_doorman(s, o->allowed, err);
    if (rc)
        return rc;
    if (zmq_curve_public(public, secret) < 0)
        return mf_err_set(err, MF_EUSAGE, "%s is not a secret key", o->secret);
    zmq_setsockopt(s->socket, ZMQ_CURVE_SECRETKEY, secret, MF_KEY_SIZE);
    zmq_setsockopt(s->socket, ZMQ_CURVE_PUBLICKEY, public, MF_KEY_SIZE);
    if (!bind) {
        zmq_setsockopt(s->socket, ZMQ_CURVE_SERVERKEY, server, MF_KEY_SIZE);
        return 0;
    }
    mf_socket_set(s, ZMQ_CURVE_SERVER, 1);
    zmq_setsockopt(s->socket, ZMQ_ZAP_DOMAIN, "maniflow", 8);
    return 0;
}

void mf_curve_unlock(struct mf_socket *s)
{
    struct mf_doorman *d = s->doorman;
    if (!d)
        return;
    if (d->door)
        pthread_join(d->thread, NULL);
    free(d->name);
    free(d->allowed);
    free(d);
    s->doorman = NULL;
}
