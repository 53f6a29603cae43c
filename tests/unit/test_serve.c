/* mf-env's answers to any request: invalid shapes, counts and numbers are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env/serve.h"
#include "env/talk.h"
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

static void refused(const char *text, const char *why)
{
    ok(strstr(text, why) != NULL, "%s", text);
}

static void shapes(void)
{
    const struct mf_env *lift;
    mf_env_find(&lift, "lift", &err);
    v = mf_service_new(lift, 1);
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
    mf_env_find(&point, "point", &err);
    v = mf_service_new(point, 1);
    counts();
    steps();
    mf_service_free(v);
    return done();
}
