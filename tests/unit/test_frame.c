#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "stream/frame.h"
#include "tap.h"

static struct mf_err err;

#define BYTES(literal) (literal), sizeof(literal) - 1
#define ND             "\xc4\x02nd\xc3"
#define TYPE           "\xc4\x04type\xa3"
#define KIND           "\xc4\x04kind\xc4\x00"
#define SHAPE          "\xc4\x05shape"
#define DATA                                                                                                           \
    "\xc4\x04"                                                                                                         \
    "data"
#define ONE_TWO "\xc4\x08\x00\x00\x80\x3f\x00\x00\x00\x40"
#define NUMPY49 "\x85" ND TYPE "<f4" KIND SHAPE "\x91\x02" DATA ONE_TWO

/* {"mf": "rollout", "arrays": {"x": ...}} */
static struct mf_frame *with_array(const void *array, size_t n)
{
    static const char head[] = "\x82\xa2mf\xa7rollout\xa6"
                               "arrays\x81\xa1x";
    char bytes[256];
    struct mf_frame *f = NULL;
    memcpy(bytes, head, sizeof head - 1);
    memcpy(bytes + sizeof head - 1, array, n);
    snprintf(err.text, sizeof err.text, "none");
    mf_frame_decode(&f, bytes, sizeof head - 1 + n, &err);
    return f;
}

static int same_bytes(const struct mf_frame *f, const void *want, size_t n)
{
    void *got;
    size_t len;
    int same = !mf_frame_encode(f, &got, &len, &err) && len == n && !memcmp(got, want, n);
    free(got);
    return same;
}

static void exact_ndarray(void)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    void *data;
    ok(!mf_frame_add(f, "x", MF_F32, 1, (size_t[]){2}, &data, &err) && (size_t)data % 64 == 0, "an array is added");
    memcpy(data, (float[]){1, 2}, 8);
    ok(same_bytes(f, BYTES("\x82\xa2mf\xa7rollout\xa6"
                           "arrays\x81\xa1x" NUMPY49)) &&
           sizeof NUMPY49 - 1 == 49,
       "np.array([1, 2], '<f4') is msgpack-numpy's 49 bytes");
    ok(!mf_frame_add(f, "scalar", MF_U8, 0, NULL, &data, &err), "a 0-d array");
    struct mf_array *a = mf_frame_find(f, "scalar");
    ok(a && a->rank == 0 && a->count == 1 && a->bytes == 1 && mf_frame_arrays(f) == 2, "has one element");
    ok(!mf_frame_add(f, "none", MF_F64, 2, (size_t[]){0, 5}, &data, &err) && mf_frame_find(f, "none")->bytes == 0,
       "an empty array");
    ok(mf_frame_add(f, "big", MF_F64, 2, (size_t[]){1u << 31, 1u << 31}, &data, &err) == MF_EFORMAT &&
           mf_frame_add(f, "wrap", MF_U8, 2, (size_t[]){SIZE_MAX, 2}, &data, &err) == MF_EFORMAT,
       "too much is refused: %s", err.text);
    mf_frame_free(f);
}

static void is_one_two(const char *what, const void *array, size_t n)
{
    struct mf_frame *f = with_array(array, n);
    struct mf_array *a = f ? mf_frame_find(f, "x") : NULL;
    const float *x = a ? a->data : NULL;
    ok(a && a->dtype == MF_F32 && a->rank == 1 && a->dim[0] == 2 && a->count == 2 && a->bytes == 8 && x[0] == 1 &&
           x[1] == 2 && (size_t)x % 8 == 0,
       "%s (%s)", what, f ? "read" : err.text);
    if (f) {
        char whole[256] = "\x82\xa2mf\xa7rollout\xa6"
                          "arrays\x81\xa1x";
        size_t head = strlen(whole);
        memcpy(whole + head, array, n);
        ok(same_bytes(f, whole, head + n), "%s: goes out as it came, also after it was read", what);
    }
    mf_frame_free(f);
}

static void dialects(void)
{
    is_one_two("msgpack-numpy", BYTES(NUMPY49));
    is_one_two("another order", BYTES("\x85" DATA ONE_TWO SHAPE "\x91\x02" KIND ND TYPE "<f4"));
    is_one_two("type as bin", BYTES("\x85" ND "\xc4\x04type\xc4\x03<f4" KIND SHAPE "\x91\x02" DATA ONE_TWO));
    is_one_two("no kind", BYTES("\x84" ND TYPE "<f4" SHAPE "\x91\x02" DATA ONE_TWO));
    is_one_two("str keys", BYTES("\x84\xa2nd\xc3\xa4type\xa3<f4\xa5shape\x91\x02\xa4"
                                 "data" ONE_TWO));
    is_one_two("data as a raw of old", BYTES("\x84\xa2nd\xc3\xa4type\xa3<f4\xa5shape\x91\x02\xa4"
                                             "data\xa8\x00\x00\x80\x3f\x00\x00\x00\x40"));
    is_one_two("big-endian",
               BYTES("\x85" ND TYPE ">f4" KIND SHAPE "\x91\x02" DATA "\xc4\x08\x3f\x80\x00\x00\x40\x00\x00\x00"));
    is_one_two("openpi", BYTES("\x84\xc4\x0b__ndarray__\xc3" DATA ONE_TWO "\xc4\x05"
                               "dtype\xa3<f4" SHAPE "\x91\x02"));
}

static void passes(const char *what, const void *array, size_t n)
{
    struct mf_frame *f = with_array(array, n);
    ok(f && !mf_frame_find(f, "x") && mf_frame_arrays(f) == 0 && mf_frame_count(f, "arrays") == 1,
       "%s passes through (%s)", what, f ? "read" : err.text);
    mf_frame_free(f);
}

static void refused(const char *what, const void *array, size_t n)
{
    struct mf_frame *f = with_array(array, n);
    ok(!f && err.code == MF_EFORMAT && strstr(err.text, "'x'"), "%s is refused: %s", what, err.text);
    mf_frame_free(f);
}

static void strange_arrays(void)
{
    passes("a scalar", BYTES("\x83\xc4\x02nd\xc2" TYPE "<f8" DATA "\xc4\x08........"));
    passes("a complex array", BYTES("\x85" ND TYPE "<c8" KIND SHAPE "\x91\x01" DATA "\xc4\x08........"));
    passes("a structured array", BYTES("\x85" ND "\xc4\x04type\x91\x92\xa1q\xa3<f4\xc4\x04kind\xc4\x01V" SHAPE
                                       "\x91\x01" DATA "\xc4\x04...."));
    passes("a list", BYTES("\x92\x01\x02"));
    passes("an empty map", BYTES("\x80"));
    refused("a pickle", BYTES("\x85" ND TYPE "|O8\xc4\x04kind\xc4\x01O" SHAPE "\x91\x01" DATA "\xc4\x01."));
    refused("too little data", BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x91\x03" DATA ONE_TWO));
    refused("too much data", BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x91\x01" DATA ONE_TWO));
    refused("a shape that wraps to the data",
            BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x92\xcf\x80\x00\x00\x00\x00\x00\x00\x01\x02" DATA ONE_TWO));
    refused("a shape whose zero hides a wrap",
            BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x93\xcf\x80\x00\x00\x00\x00\x00\x00\x01\x02\x00" DATA "\xc4\x00"));
    refused("a negative size", BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x91\xff" DATA ONE_TWO));
    refused("a size that is no int", BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x91\xa1z" DATA ONE_TWO));
    refused("nine sizes",
            BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x99\x02\x01\x01\x01\x01\x01\x01\x01\x01" DATA ONE_TWO));
    refused("no shape", BYTES("\x84" ND TYPE "<f4" KIND DATA ONE_TWO));
    refused("data that is a number", BYTES("\x85" ND TYPE "<f4" KIND SHAPE "\x91\x02" DATA "\x08"));
}

static void not_decoded(const char *what, const void *bytes, size_t n, const char *word)
{
    struct mf_frame *f = NULL;
    int rc = mf_frame_decode(&f, bytes, n, &err);
    ok(rc == MF_EFORMAT && !f && strstr(err.text, word), "%s: %s", what, rc ? err.text : "was taken");
}

static void strange_frames(void)
{
    not_decoded("nothing", "", 0, "one whole frame");
    not_decoded("no kind", BYTES("\x81\xa1x\x01"), "without its kind");
    not_decoded("a kind that is a number", BYTES("\x81\xa2mf\x01"), "without its kind");
    not_decoded("a byte too many",
                BYTES("\x81\xa2mf\xa3"
                      "end\xc0"),
                "one whole frame");
    not_decoded("a key twice",
                BYTES("\x83\xa2mf\xa3"
                      "end\xa1y\x01\xd9\x01y\x02"),
                "'y' is there twice");
    not_decoded("an array twice",
                BYTES("\x82\xa2mf\xa7rollout\xa6"
                      "arrays\x82\xa1x\x01\xa1x\x01"),
                "'x' is there twice");
    not_decoded("a key twice, deep down",
                BYTES("\x82\xa2mf\xa3"
                      "end\xa1y\x91\x92\x81\x01\x02\x82\x07\x01\x07\x01"),
                "there twice");
    static const char numbers[] = "\x82\xa2mf\xa3"
                                  "end\xa1y\x82\x31\x01\xa1\x31\x02";
    struct mf_frame *f;
    ok(mf_frame_decode(&f, numbers, sizeof numbers - 1, &err) == 0, "the number 49 and the string '1' are two keys");
    mf_frame_free(f);
    not_decoded("arrays that are not a map",
                BYTES("\x82\xa2mf\xa7rollout\xa6"
                      "arrays\x90"),
                "not a map");
}

/* Heads longer than they need be, keys that are no strings, an ext, a nan: what nobody here would write. */
#define ODD                                                                                                            \
    "\xde\x00\x07\xa2mf\xa7rollout\xd9\x04iter\xcf\x00\x00\x00\x00\x00\x00\x00\x07\x05\xc0\xa7nothing\xd6\x09"         \
    "abcd\xa6policy\xdf\x00\x00\x00\x02\xa7version\xd1\x00\x03\xa6"                                                    \
    "digest\xda\x00\x02ok\xa6"                                                                                         \
    "arrays\xde\x00\x02\xa1x" NUMPY49 "\xa5thing\x93\x01\xca\x7f\xc0\x00\x00\x03\xa5slice\xdc\x00\x02\x01\x04"

static void fields(void)
{
    struct mf_frame *f = NULL;
    int64_t i = 0;
    double d = 0;
    const char *s = "";
    bool b;
    ok(!mf_frame_decode(&f, BYTES(ODD), &err) && same_bytes(f, BYTES(ODD)), "odd bytes pass through untouched");
    ok(mf_frame_kind(f) == MF_ROLLOUT && !mf_frame_get_int(f, "iter", &i, &err) && i == 7, "an int");
    ok(!mf_frame_get_int(f, "policy.version", &i, &err) && i == 3 && !mf_frame_get_int(f, "slice.1", &i, &err) &&
           i == 4 && !mf_frame_get_str(f, "policy.digest", &s, &err) && !strcmp(s, "ok"),
       "paths into maps and lists");
    ok(!mf_frame_get_num(f, "arrays.thing.0", &d, &err) && d == 1 && !mf_frame_get_num(f, "arrays.thing.1", &d, &err) &&
           isnan(d),
       "and below the arrays");
    ok(mf_frame_get_int(f, "policy.none", &i, &err) == MF_EFORMAT &&
           !strcmp(err.text, "a rollout frame without 'policy.none'"),
       "missing: %s", err.text);
    for (enum mf_kind kind = MF_END; kind <= MF_OTHER; kind += MF_OTHER - MF_END) {
        struct mf_frame *empty = mf_frame_new(kind);
        ok(mf_frame_get_int(empty, "n", &i, &err) == MF_EFORMAT &&
               !strcmp(err.text, kind == MF_END ? "an end frame without 'n'" : "an unknown frame without 'n'"),
           "with its article: %s", err.text);
        mf_frame_free(empty);
    }
    ok(mf_frame_get_bool(f, "iter", &b, &err) == MF_EFORMAT && strstr(err.text, "'iter'"), "another type: %s",
       err.text);
    ok(!mf_frame_has(f, "slice.2") && !mf_frame_has(f, "slice.x") && !mf_frame_has(f, "polic") &&
           !mf_frame_has(f, "iter.0") && mf_frame_has(f, "arrays.x") && mf_frame_has(f, "nothing"),
       "has");
    ok(mf_frame_count(f, "") == 7 && mf_frame_count(f, "policy") == 2 && mf_frame_count(f, "slice") == 2 &&
           mf_frame_count(f, "arrays") == 2 && mf_frame_count(f, "iter") == -1 && mf_frame_count(f, "no") == -1,
       "count");
    ok(!strcmp(mf_frame_key(f, "policy", 1), "digest") && !strcmp(mf_frame_key(f, "", 0), "mf") &&
           !mf_frame_key(f, "", 2) && !mf_frame_key(f, "policy", 2) && !strcmp(mf_frame_key(f, "arrays", 1), "thing"),
       "keys; one that is no string has none");
    mf_frame_free(f);
}

static void numpy_scalars(void)
{
    struct mf_frame *f = NULL;
    double d = 0;
    int64_t i = 0;
    ok(!mf_frame_decode(&f,
                        BYTES("\x83\xa2mf\xa7metrics\xa1x\x83\xc4\x02nd\xc2" TYPE "<f4" DATA
                              "\xc4\x04\x00\x00\x20\xc0\xa1y\x83"
                              "\xc4\x02nd\xc2" TYPE "<i2" DATA "\xc4\x02\xfe\xff"),
                        &err) &&
           !mf_frame_get_num(f, "x", &d, &err) && d == -2.5 && !mf_frame_get_int(f, "y", &i, &err) && i == -2,
       "NumPy's scalars are numbers");
    mf_frame_free(f);
}

static void changes(void)
{
    struct mf_frame *f = NULL;
    void *data;
    char name[] = "mf-gae", word[] = "advantage.gamma=.9", *argv[] = {name, word};
    mf_frame_decode(&f, BYTES(ODD), &err);
    mf_frame_set_int(f, "policy.version", 300);
    ok(same_bytes(
           f,
           BYTES("\x87\xa2mf\xa7rollout\xd9\x04iter\xcf\x00\x00\x00\x00\x00\x00\x00\x07\x05\xc0\xa7nothing\xd6\x09"
                 "abcd\xa6policy\xdf\x00\x00\x00\x02\xa7version\xcd\x01\x2c\xa6"
                 "digest\xda\x00\x02ok\xa6"
                 "arrays\x82\xa1x" NUMPY49 "\xa5thing\x93\x01\xca\x7f\xc0\x00\x00\x03\xa5slice\xdc\x00\x02\x01\x04")),
       "a change leaves the bytes beside it");
    mf_frame_add(f, "x", MF_U8, 1, (size_t[]){1}, &data, &err);
    mf_frame_add(f, "y", MF_U8, 1, (size_t[]){1}, &data, &err);
    ((uint8_t *)data)[0] = 9;
    mf_frame_set_str(f, "policy.new.deep", "s");
    mf_frame_set_ints(f, "slice", (int64_t[]){-1, 2}, 2);
    mf_frame_set_bool(f, "last", true);
#define U8(v) "\x85" ND TYPE "|u1" KIND SHAPE "\x91\x01" DATA "\xc4\x01" v
    ok(same_bytes(
           f, BYTES("\x88\xa2mf\xa7rollout\xd9\x04iter\xcf\x00\x00\x00\x00\x00\x00\x00\x07\x05\xc0\xa7nothing\xd6\x09"
                    "abcd\xa6policy\x83\xa7version\xcd\x01\x2c\xa6"
                    "digest\xda\x00\x02ok\xa3new\x81\xa4"
                    "deep\xa1s\xa6"
                    "arrays\x83\xa1x" U8("\x00") "\xa5thing\x93\x01\xca\x7f\xc0\x00\x00\x03\xa1y" U8(
                        "\x09") "\xa5slice\x92\xff\x02\xa4last\xc3")),
       "replaced in place, added behind");
    mf_frame_free(f);

    f = mf_frame_head("a/b", "left", 7);
    ok(same_bytes(f, BYTES("\x85\xa2mf\xa4head\xa1v\x01\xa3run\xa3"
                           "a/b\xa3src\xa4left\xa4seed\x07")),
       "a head begins with format, run, source and seed");
    mf_frame_set_ints(f, "spec.obs", (int64_t[]){1, 2}, 2);
    mf_frame_add_chain(f, "mf-collect", "1", 0, NULL);
    mf_frame_add_chain(f, "mf-gae", "1", 2, argv);
    const char *s = "";
    int64_t second = 0;
    ok(mf_frame_count(f, "chain") == 2 && !mf_frame_get_str(f, "chain.1.argv.1", &s, &err) &&
           !strcmp(s, "advantage.gamma=.9") && !mf_frame_get_str(f, "chain.0.stage", &s, &err) &&
           !strcmp(s, "mf-collect") && !mf_frame_get_int(f, "spec.obs.1", &second, &err) && second == 2,
       "a chain grows");
    mf_frame_set_num(f, "spec.obs.1", .5);
    mf_frame_set_bin(f, "spec.obs.0", "\0\1", 2);
    double d = 0;
    const void *p;
    size_t n = 0;
    ok(!mf_frame_get_num(f, "spec.obs.1", &d, &err) && d == .5 && !mf_frame_get_bin(f, "spec.obs.0", &p, &n, &err) &&
           n == 2 && !memcmp(p, "\0\1", 2),
       "an entry of a list is replaced");
    mf_frame_free(f);
}

/* Any frame goes out as bytes that msgpack-c reads whole, and comes in again. */
static int sound(const struct mf_frame *f)
{
    void *bytes;
    size_t len, off = 0;
    struct mf_frame *again = NULL;
    msgpack_unpacked u;
    msgpack_unpacked_init(&u);
    int good = !mf_frame_encode(f, &bytes, &len, &err) &&
               msgpack_unpack_next(&u, bytes, len, &off) == MSGPACK_UNPACK_SUCCESS && off == len &&
               !mf_frame_decode(&again, bytes, len, &err) && same_bytes(again, bytes, len);
    msgpack_unpacked_destroy(&u);
    mf_frame_free(again);
    free(bytes);
    return good;
}

static void damaged(void)
{
    uint8_t bytes[] = ODD;
    size_t len = sizeof bytes - 1;
    int taken = 0, unsound = 0;
    struct mf_frame *f;
    for (size_t n = 0; n < len; n++) {
        uint8_t *cut = malloc(n + 1); /* of its very size, so that a sanitizer sees a read too far */
        uint8_t *exact = realloc(cut, n ? n : 1);
        memcpy(exact, bytes, n);
        taken += mf_frame_decode(&f, exact, n, &err) == 0;
        free(exact);
    }
    ok(!taken, "no beginning of a frame is one");
    for (size_t at = 0; at < len; at++)
        for (int v = 0; v < 256; v++) {
            uint8_t was = bytes[at];
            bytes[at] = (uint8_t)v;
            if (!mf_frame_decode(&f, bytes, len, &err)) {
                mf_frame_find(f, "x");
                mf_frame_set_int(f, "policy.version", v);
                unsound += !sound(f);
                mf_frame_free(f);
            }
            bytes[at] = was;
        }
    ok(!unsound, "with any byte changed it is refused, or is sound");
}

static void dtypes(void)
{
    int bad = 0;
    for (enum mf_dtype t = MF_F32; t <= MF_B1; t++) {
        struct mf_frame *f = mf_frame_new(MF_POLICY), *g = NULL;
        void *data, *bytes;
        size_t len;
        bad += mf_frame_add(f, "w.0/x", t, 2, (size_t[]){2, 3}, &data, &err) != 0;
        memset(data, (int)t + 1, 6 * mf_dtype_size(t));
        bad += mf_frame_encode(f, &bytes, &len, &err) != 0 || mf_frame_decode(&g, bytes, len, &err) != 0;
        struct mf_array *a = g ? mf_frame_array(g, 0) : NULL;
        bad += !a || a->dtype != t || a->dim[1] != 3 || memcmp(a->data, data, a->bytes) ||
               a != mf_frame_find(g, "w.0/x") || !mf_frame_has(g, "tensors");
        free(bytes);
        mf_frame_free(f);
        mf_frame_free(g);
    }
    ok(!bad, "every dtype goes round, in a policy's tensors");
}

int main(void)
{
    exact_ndarray();
    dtypes();
    dialects();
    strange_arrays();
    strange_frames();
    fields();
    numpy_scalars();
    changes();
    damaged();
    return done();
}
