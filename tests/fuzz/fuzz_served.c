/* What a server of environments says, one frame after the other, to a client that makes two of them, resets, steps,
 * saves and loads.
 *
 * rooms: env
 */
#include <stdlib.h>
#include <string.h>

#include "env/served_priv.h"
#include "env/stepper.h"
#include "wire/rpc_priv.h"
#include "wire/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 2, C = 2 };

static const uint8_t *rest;
static size_t left;
static void *answer;
static int64_t seq; /* of the question that was put last: every answer is to it */

static int put(struct mf_rpc *c, const void *frame, size_t len, double deadline, struct mf_err *err)
{
    struct mf_frame *q;
    (void)c, (void)deadline;
    if (mf_frame_decode(&q, frame, len, err) || mf_frame_get_int(q, "seq", &seq, err))
        abort();
    mf_frame_free(q);
    return 0;
}

static int get(struct mf_rpc *c, double deadline, const void **frame, size_t *len, struct mf_err *err)
{
    struct mf_frame *f;
    size_t n = mf_token_span(rest, left);
    (void)c, (void)deadline;
    if (!n || mf_frame_decode(&f, rest, n, err))
        return mf_err_set(err, MF_EFORMAT, "no more answers");
    rest += n;
    left -= n;
    mf_frame_set_int(f, "seq", seq);
    free(answer);
    answer = NULL;
    int rc = mf_frame_encode(f, &answer, len, err);
    mf_frame_free(f);
    *frame = answer;
    return rc;
}

static void hang_up(struct mf_rpc *c)
{
    (void)c;
}

static void live(struct mf_served *s, struct mf_err *err)
{
    struct mf_vec_opts o = {.env = &s->env, .N = N, .max_steps = 3, .threads = 1};
    struct mf_slots r = {0};
    struct mf_stepper t;
    void *state[N] = {NULL, NULL};
    size_t size[N] = {0, 0};
    if (mf_slots_init(&r, &o, err) == 0 && mf_served_new(&t, &r, err) == 0) {
        float *actions = calloc((size_t)N * C * (size_t)r.A, sizeof *actions);
        (void)(t.kind->reset(t.self, &r, NULL, err) || mf_slots_chunk(&r, C, err) ||
               t.kind->step(t.self, &r, actions, true, err) || t.kind->save(t.self, &r, state, size, err) ||
               t.kind->load(t.self, &r, (const void *const *)state, size, err));
        for (int i = 0; i < N; i++)
            free(state[i]);
        free(actions);
        t.kind->free(t.self);
    }
    mf_slots_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mf_rpc_carrier carrier = {put, get, hang_up};
    struct mf_err err = {0};
    struct mf_served *s = calloc(1, sizeof *s);
    rest = data;
    left = size;
    s->opts = (struct mf_env_opts){.name = "remote", .address = "nowhere", .timeout = 1};
    s->env.served = s;
    s->server = calloc(1, sizeof *s->server);
    s->n_servers = 1;
    s->server->call = calloc(1, sizeof *s->server->call);
    s->server->call->carrier = &carrier;
    if (mf_served_greet(s, s->server, &err) == 0)
        live(s, &err);
    mf_served_close(s);
    free(answer);
    answer = NULL;
    return 0;
}
