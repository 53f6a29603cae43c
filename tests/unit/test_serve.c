/* mf-env's answers to any request: invalid shapes, counts and numbers are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env/serve.h"
#include "env/talk.h"
#include "env/vec.h"
#include "tap.h"

static struct mf_service *v;
static struct mf_err err;

/* Of the answer to q: its text, "" for one that is no error. q is freed. */
static const char *ask(struct mf_frame *q, const char *say)
{
    static char text[512];
    const char *is, *why = "";
    struct mf_frame *a = mf_service_answer(v, q, say, 7);
    int64_t seq = 0;
    mf_frame_get_str(a, "say", &is, &err);
    mf_frame_get_int(a, "seq", &seq, &err);
    if (!strcmp(is, "error"))
        mf_frame_get_str(a, "text", &why, &err);
    snprintf(text, sizeof text, "%s%s", seq == 7 ? "" : "another seq: ", why);
    mf_frame_free(a);
    mf_frame_free(q);
    return text;
}

static struct mf_frame *make(int64_t n, int64_t first, int64_t max_steps)
{
    struct mf_frame *q = mf_talk_new("make", 7);
    mf_frame_set_int(q, "n", n);
    mf_frame_set_int(q, "first", first);
    mf_frame_set_int(q, "max_steps", max_steps);
    mf_frame_set_int(q, "seed", -1);
    mf_frame_set_str(q, "purpose", "train");
    return q;
}

static struct mf_frame *shown(struct mf_frame *q, const char *name, enum mf_dtype dtype, int rank, const size_t *dim)
{
    void *data;
    mf_frame_add(q, name, dtype, rank, dim, &data, &err);
    return q;
}

/* make of one environment that shows this. */
static const char *shows(const char *name, enum mf_dtype dtype, int rank, const size_t *dim)
{
    return ask(shown(make(1, 0, 5), name, dtype, rank, dim), "make");
}

/* The array `name` of the answer to q, of this shape; its bytes are the caller's. NULL: there is none. */
static uint8_t *array(struct mf_frame *q, const char *say, const char *name, int rank, const size_t *dim)
{
    struct mf_frame *a = mf_service_answer(v, q, say, 7);
    const struct mf_array *x = mf_frame_find(a, name);
    uint8_t *bytes = NULL;
    if (x && x->rank == rank && !memcmp(x->dim, dim, (size_t)rank * sizeof *dim))
        bytes = memcpy(malloc(x->bytes), x->data, x->bytes);
    mf_frame_free(a);
    mf_frame_free(q);
    return bytes;
}

static struct mf_frame *reset(size_t n)
{
    struct mf_frame *q = mf_talk_new("reset", 7);
    void *data;
    mf_frame_add(q, "which", MF_U8, 1, &n, &data, &err);
    memset(data, 1, n);
    mf_frame_add(q, "episode", MF_I32, 1, &n, &data, &err);
    memset(data, 0, n * sizeof(int32_t));
    return q;
}

static void pictures(void)
{
    static const size_t dim[] = {2, 24, 24, 3};
    struct mf_obs o = {.name = "agentview_image", .dim = {24, 24, 3}, .u8 = true};
    const struct mf_env *lift;
    const float *obs;
    struct mf_vec *own = NULL;
    mf_env_find(&lift, "lift", &err);
    v = mf_service_new(lift, 1, 24);
    uint8_t *offered = array(mf_talk_new("hello", 7), "hello", "obs/agentview_image", 3, dim + 1);
    ok(offered != NULL, "a server offers pictures of env.image_size");
    ok(!*ask(shown(make(2, 0, 5), "obs/agentview_image", MF_U8, 3, dim + 1), "make"), "and makes them");
    uint8_t *sent = array(reset(2), "reset", "obs/agentview_image", 4, dim);
    struct mf_vec_opts opts = {.env = lift, .N = 2, .threads = 1, .max_steps = 5, .seed = (uint64_t)-1};
    mf_layout_add(&opts.obs, &o);
    opts.reset_purpose = MF_RNG_RESET;
    ok(sent && mf_vec_new(&own, &opts, &err) == 0 && mf_vec_reset(own, NULL, &obs, &err) == 0 &&
           !memcmp(obs, sent, sizeof(uint8_t[2][24][24][3])),
       "of the same bytes as in its own process");
    mf_vec_free(own);
    mf_service_free(v);
    free(offered), free(sent);
}

static void refused(const char *text, const char *why)
{
    ok(strstr(text, why) != NULL, "%s", text);
}

static void shapes(void)
{
    const struct mf_env *lift;
    mf_env_find(&lift, "lift", &err);
    v = mf_service_new(lift, 1, 0);
    refused(shows("obs/object", MF_F32, 1, (size_t[]){1}),
            "has the observation 'object' as float32 (10), not as float32 (1)");
    refused(shows("obs/object", MF_F32, 1, (size_t[]){1 << 20}), "not as float32 (1048576)");
    refused(shows("obs/point_cloud", MF_U8, 2, (size_t[]){64, 6}), "not as uint8 (64, 6)");
    refused(shows("obs/object", MF_F32, 2, (size_t[]){10, 1}), "not as float32 (10, 1)");
    refused(shows("obs/point_cloud", MF_F32, 1, (size_t[]){5}), "1 to 4096 points are possible");
    refused(shows("obs/point_cloud", MF_F32, 2, (size_t[]){4097, 6}), "1 to 4096 points are possible");
    refused(shows("obs/point_cloud", MF_F32, 2, (size_t[]){4, 7}), "not as float32 (4, 7)");
    refused(shows("obs/none", MF_F32, 1, (size_t[]){1}), "has no observation 'none'");
    ok(!*shows("obs/point_cloud", MF_F32, 2, (size_t[]){4096, 6}), "4096 points are made");
    refused(shows("obs/agentview_image", MF_U8, 3, (size_t[]){7, 7, 3}), "squares of 8 to 1024 pixels are possible");
    refused(shows("obs/agentview_depth", MF_U8, 3, (size_t[]){9, 9, 1}), "not as uint8 (9, 9, 1)");
    refused(ask(shown(make(16384, 0, 5), "obs/point_cloud", MF_F32, 2, (size_t[]){4096, 6}), "make"), "one answer");
    mf_service_free(v);
}

static void counts(void)
{
    const size_t one = 1;
    const struct {
        int64_t n, first, max_steps;
    } bad[] = {{0, 0, 5},       {-1, 0, 5}, {16385, 0, 5},     {1 << 20, 0, 5},  {1, -1, 5},
               {1, 1 << 24, 5}, {1, 0, -1}, {1, 0, 1LL << 31}, {INT64_MAX, 0, 5}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mf_frame *q = make(bad[i].n, bad[i].first, bad[i].max_steps);
        const char *said = ask(shown(q, "obs/goal", MF_F32, 1, &one), "make");
        ok(*said, "n=%lld first=%lld max_steps=%lld: %s", (long long)bad[i].n, (long long)bad[i].first,
           (long long)bad[i].max_steps, said);
    }
    struct mf_frame *q = make(1, 0, 5);
    mf_frame_set_str(q, "purpose", "fun");
    refused(ask(shown(q, "obs/goal", MF_F32, 1, &one), "make"), "purpose is 'fun'");
}

static struct mf_frame *step(size_t C, float action, int32_t episode)
{
    struct mf_frame *q = mf_talk_new("step", 7);
    void *data;
    mf_frame_set_bool(q, "autoreset", true);
    mf_frame_add(q, "actions", MF_F32, 3, (size_t[]){1, C, 1}, &data, &err);
    if (C)
        ((float *)data)[C - 1] = action;
    mf_frame_add(q, "active", MF_U8, 1, (size_t[]){1}, &data, &err);
    *(uint8_t *)data = 1;
    mf_frame_add(q, "episode", MF_I32, 1, (size_t[]){1}, &data, &err);
    *(int32_t *)data = episode;
    return q;
}

static void steps(void)
{
    const size_t one = 1, state = 20, other = 19; /* bytes of the point's */
    void *data;
    refused(ask(step(1, 0, 1), "step"), "the request 'step' came before 'make'");
    ok(!*ask(shown(make(1, 0, 5), "obs/goal", MF_F32, 1, &one), "make") && !*ask(step(2, 0, 1), "step"),
       "made, stepped");
    refused(ask(step(0, 0, 1), "step"), "a chunk of 0 actions");
    refused(ask(step(65537, 0, 1), "step"), "65537 actions; 1 to 65536");
    refused(ask(step(2, NAN, 1), "step"), "number 1 of the actions is not finite");
    refused(ask(step(3, -INFINITY, 1), "step"), "number 2 of the actions is not finite");
    refused(ask(step(1, 0, INT32_MIN), "step"), "episode[0] is -2147483648, not within 0..1073741824");
    refused(ask(step(1, 0, INT32_MAX), "step"), "episode[0] is 2147483647");
    ok(!*ask(step(1, 3e38f, 0), "step"), "an action of any size is clipped");
    struct mf_frame *q = mf_talk_new("load", 7);
    mf_frame_add(q, "state/0", MF_U8, 1, &state, &data, &err);
    memset(data, 127, state); /* a clock of 2139062143 steps */
    ok(!*ask(q, "load") && !*ask(step(9, 0, 1), "step"), "a state of any bytes continues");
    q = shown(mf_talk_new("load", 7), "state/0", MF_U8, 1, &other);
    refused(ask(q, "load"), "not one of environment point");
    refused(ask(mf_talk_new("dance", 7), "dance"), "unknown request 'dance'");
}

int main(void)
{
    const struct mf_env *point;
    shapes();
    pictures();
    mf_env_find(&point, "point", &err);
    v = mf_service_new(point, 1, 0);
    counts();
    steps();
    mf_service_free(v);
    return done();
}
