#include <errno.h>
#include <msgpack.h>
#include <string.h>
#include <sys/un.h>
#include <zmq.h>

#include "wire/edge_priv.h"
#include "wire/loopback.h"
#include "wire/token.h"

static const char *const words[] = {"want", "policy", "wait", "gone", "over"};

static const struct {
    const char *name;
    size_t at;
} numbers[] = {
    {"seq", offsetof(struct mf_edge_note, seq)},       {"version", offsetof(struct mf_edge_note, version)},
    {"oldest", offsetof(struct mf_edge_note, oldest)}, {"newest", offsetof(struct mf_edge_note, newest)},
    {"parts", offsetof(struct mf_edge_note, parts)},   {"state", offsetof(struct mf_edge_note, state)},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void text(msgpack_packer *p, const char *s)
{
    msgpack_pack_str_with_body(p, s, strlen(s));
}

size_t mf_edge_note_write(const struct mf_edge_note *note, char out[MF_EDGE_NOTE_MAX])
{
    msgpack_sbuffer buffer = {.data = NULL};
    msgpack_packer p;
    msgpack_packer_init(&p, &buffer, msgpack_sbuffer_write);
    msgpack_pack_map(&p, 3 + NUMBERS);
    const char *const strings[] = {"mf", "edge", "say", words[note->say], "src", note->src};
    for (int i = 0; i < 6; i++)
        text(&p, strings[i]);
    for (int i = 0; i < NUMBERS; i++) {
        text(&p, numbers[i].name);
        msgpack_pack_int64(&p, *(const int64_t *)((const char *)note + numbers[i].at));
    }
    size_t n = buffer.size;
    memcpy(out, buffer.data, n); /* some 200 bytes */
    msgpack_sbuffer_destroy(&buffer);
    return n;
}

/* The next token, with its body when it has one; what is longer than the rest is no token. */
static bool next(struct mf_token *t, const uint8_t **p, size_t *left, const char **body)
{
    if (mf_token_read(t, *p, *left) != 1 || t->type == MF_LIST || t->type == MF_MAP)
        return false;
    size_t n = t->type == MF_TEXT || t->type == MF_BYTES || t->type == MF_EXT ? (size_t)t->n : 0;
    *body = (const char *)*p + t->head;
    if (n > *left - t->head)
        return false;
    *p += t->head + n;
    *left -= t->head + n;
    return true;
}

static bool is(const struct mf_token *t, const char *body, const char *word)
{
    return t->type == MF_TEXT && t->n == strlen(word) && !memcmp(body, word, t->n);
}

static bool field(struct mf_edge_note *note, const struct mf_token *key, const char *name, const struct mf_token *value,
                  const char *body)
{
    if (is(key, name, "mf"))
        return is(value, body, "edge");
    if (is(key, name, "say")) {
        for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
            if (is(value, body, words[i])) {
                note->say = (enum mf_edge_word)i;
                return true;
            }
        return false;
    }
    if (is(key, name, "src")) {
        if (value->type != MF_TEXT || value->n >= sizeof note->src || memchr(body, 0, value->n))
            return false;
        memcpy(note->src, body, value->n);
        note->src[value->n] = 0;
        return true;
    }
    for (int i = 0; i < NUMBERS; i++)
        if (is(key, name, numbers[i].name)) {
            if (value->type != MF_SINT && (value->type != MF_UINT || value->u > INT64_MAX))
                return false;
            *(int64_t *)((char *)note + numbers[i].at) = value->type == MF_SINT ? value->i : (int64_t)value->u;
            return true;
        }
    return true; /* a later version's field */
}

bool mf_edge_note_read(struct mf_edge_note *note, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    struct mf_token t, key;
    const char *name, *body;
    *note = (struct mf_edge_note){.say = MF_EDGE_WAIT};
    if (mf_token_read(&t, p, size) != 1 || t.type != MF_MAP)
        return false;
    p += t.head;
    size -= t.head;
    for (uint64_t i = 0; i < t.n; i++) {
        struct mf_token value;
        if (!next(&key, &p, &size, &name) || !next(&value, &p, &size, &body) || !field(note, &key, name, &value, body))
            return false;
    }
    return size == 0;
}

int mf_edge_check_address(const char *address, struct mf_err *err)
{
    enum { PATH_MAX_IPC = sizeof((struct sockaddr_un *)0)->sun_path - 1 };
    bool ipc = !strncmp(address, "ipc://", 6), tcp = !strncmp(address, "tcp://", 6);
    if (!ipc && !tcp)
        return mf_err_set(err, MF_EUSAGE, "%s is no address of a policy edge: ipc://PATH or tcp://HOST:PORT", address);
    if (ipc && strlen(address + 6) > PATH_MAX_IPC)
        return mf_err_set(
            err, MF_EUSAGE,
            "the socket %.200s has a path of %zu bytes and at most %d are possible: choose a shorter run.dir", address,
            strlen(address + 6), PATH_MAX_IPC);
    return mf_loopback_check(address, err);
}

int mf_edge_socket(void **context, void **socket, int type, int64_t max_bytes, const char *address, struct mf_err *err)
{
    *socket = NULL;
    *context = zmq_ctx_new();
    if (*context)
        *socket = zmq_socket(*context, type);
    if (!*socket)
        return mf_err_set(err, MF_EIO, "cannot open a socket for %s: %s", address, zmq_strerror(errno));
    /* No ZMQ_IMMEDIATE: with it libzmq drops an answer that came but was not read yet when its connection ends. */
    static const struct {
        int option, value;
    } settings[] = {{ZMQ_LINGER, 2000},
                    {ZMQ_SNDHWM, 8},
                    {ZMQ_RCVHWM, 8},
                    {ZMQ_HEARTBEAT_IVL, 2000},
                    {ZMQ_HEARTBEAT_TIMEOUT, 30000}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        zmq_setsockopt(*socket, settings[i].option, &settings[i].value, sizeof settings[i].value);
    zmq_setsockopt(*socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    return 0;
}
