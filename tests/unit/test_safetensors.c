/* The safetensors reader and writer: the reference's file, every rule broken once, a disk that is full. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "run/safetensors.h"
#include "tap.h"

static void reads_the_reference(void)
{
    struct mf_safetensors f;
    struct mf_err err = {0};
    ok(mf_safetensors_open(&f, "tests/fixtures/reference.safetensors", &err) == 0, "the reference's file opens %s",
       err.text);
    ok(f.n == 7 && f.n_meta == 2, "it has 7 tensors and 2 metadata");
    const struct mf_array *b = mf_safetensors_find(&f, "b.weight"), *a = mf_safetensors_find(&f, "a"),
                          *s = mf_safetensors_find(&f, "scalar"), *none = mf_safetensors_find(&f, "none"),
                          *mask = mf_safetensors_find(&f, "mask"), *half = mf_safetensors_find(&f, "tw\"o\nλ");
    float x[6];
    int64_t y[2];
    double z;
    ok(b && b->dtype == MF_F32 && b->rank == 2 && b->dim[0] == 2 && b->dim[1] == 3 && b->bytes == 24,
       "b.weight (2, 3)");
    memcpy(x, b->data, sizeof x);
    ok(x[0] == 0 && x[5] == 1.25f, "its numbers");
    ok(a && a->dtype == MF_I64 && a->bytes == 16, "a is I64");
    memcpy(y, a->data, sizeof y);
    ok(y[0] == -7 && y[1] == (int64_t)1 << 40, "its numbers");
    ok(s && s->rank == 0 && s->count == 1, "a scalar has shape []");
    memcpy(&z, s->data, sizeof z);
    ok(z == 2.5, "its number");
    ok(none && none->rank == 2 && none->count == 0 && none->bytes == 0, "shape [2, 0] is fine");
    ok(mask && mask->dtype == MF_B1 && !memcmp(mask->data, "\1\0\1", 3), "booleans");
    ok(half && half->dtype == MF_F16, "a name with a quote, a newline and a Greek letter");
    ok(!mf_safetensors_find(&f, "c") && !mf_safetensors_meta(&f, "c"), "a missing tensor is not found");
    const char *q = mf_safetensors_meta(&f, "q");
    ok(q && !strcmp(q, "a \"quoted\" \\ λ"), "metadata is decoded");
    mf_safetensors_close(&f);
}

static char *whole_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 16);
    *size = f ? fread(bytes, 1, 1 << 16, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

static int write_two(const char *path, bool swapped, struct mf_err *err)
{
    static float x[3] = {1, 2, 3};
    static uint8_t y[2] = {4, 5};
    struct mf_array t[2] = {
        {.name = "x", .dtype = MF_F32, .rank = 1, .dim = {3}, .count = 3, .bytes = 12, .data = x},
        {.name = "y\"\x01", .dtype = MF_U8, .rank = 2, .dim = {1, 2}, .count = 2, .bytes = 2, .data = y}};
    struct mf_meta m[2] = {{"k", "v\n"}, {"j", "λ"}};
    if (swapped) {
        struct mf_array a = t[0];
        t[0] = t[1];
        t[1] = a;
        struct mf_meta b = m[0];
        m[0] = m[1];
        m[1] = b;
    }
    return mf_safetensors_write(path, t, 2, m, 2, err);
}

static void writes(void)
{
    struct mf_safetensors f;
    struct mf_err err = {0};
    ok(write_two(in_folder("a"), false, &err) == 0, "a file is written %s", err.text);
    ok(write_two(in_folder("b"), true, &err) == 0, "and the same in another order");
    size_t n, m;
    char *a = whole_file(in_folder("a"), &n), *b = whole_file(in_folder("b"), &m);
    ok(n == m && n && !memcmp(a, b, n), "the bytes are the same");
    ok((unsigned char)a[0] % 8 == 0, "the tensors begin at a multiple of 8");
    free(a);
    free(b);
    ok(mf_safetensors_open(&f, in_folder("a"), &err) == 0 && f.n == 2 && f.n_meta == 2, "it reads back %s", err.text);
    const struct mf_array *x = mf_safetensors_find(&f, "x"), *y = mf_safetensors_find(&f, "y\"\x01");
    ok(x && y && ((const float *)x->data)[2] == 3 && ((const char *)y->data)[1] == 5, "the numbers are back");
    ok(!strcmp(mf_safetensors_meta(&f, "k"), "v\n") && !strcmp(mf_safetensors_meta(&f, "j"), "λ"), "and the words");
    mf_safetensors_close(&f);
    ok(access(in_folder("a.part"), F_OK) != 0, "no .part is left");

    ok(symlink("/dev/full", in_folder("a.part")) == 0, "(the disk is full from here on)");
    ok(write_two(in_folder("a"), true, &err) == MF_EIO && strstr(err.text, "No space left"), "a full disk: %s",
       err.text);
    ok(access(in_folder("a.part"), F_OK) != 0 && lstat(in_folder("a.part"), &(struct stat){0}) != 0,
       "the .part is removed");
    ok(mf_safetensors_open(&f, in_folder("a"), &err) == 0, "the old file is whole");
    mf_safetensors_close(&f);
    ok(write_two(in_folder("no/a"), true, &err) == MF_EIO && strstr(err.text, "cannot create"), "no such folder: %s",
       err.text);

    struct mf_safetensors none;
    ok(mf_safetensors_write(in_folder("empty"), NULL, 0, NULL, 0, &err) == 0 &&
           mf_safetensors_open(&none, in_folder("empty"), &err) == 0 && none.n == 0,
       "a file of nothing");
    mf_safetensors_close(&none);
}

/* A file with this JSON and n bytes of tensors. */
static int parse(const char *json, size_t n, struct mf_err *err)
{
    size_t length = strlen(json);
    char *bytes = calloc(1, 8 + length + n); /* exact, so that the sanitizer sees a read beyond */
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> 8 * i);
    memcpy(bytes + 8, json, length);
    struct mf_safetensors f;
    int rc = mf_safetensors_parse(&f, bytes, 8 + length + n, "F", err);
    if (!rc)
        mf_safetensors_close(&f);
    free(bytes);
    return rc;
}

#define X(shape, offsets) "{\"x\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
static const struct {
    const char *json, *says;
    size_t n;
} broken[] = {
    {X("[2]", "[0,8]") "x", "end of file expected near 'x', at byte 55", 8},
    {X("[2]", "[0,8]"), "3 bytes follow", 11},
    {X("[2]", "[0,8]"), "half-written or cut", 7},
    {X("[2]", "[0,4]"), "do not span the 8 bytes", 8},
    {X("[2]", "[8,0]"), "do not span", 8},
    {X("[2]", "[4,12]"), "a hole before tensor x", 12},
    {X("[2]", "[0]"), "data_offsets of tensor x are not two", 8},
    {X("[2]", "[0,8,8]"), "at most 2 numbers", 8},
    {X("[-2]", "[0,8]"), "not a non-negative integer", 8},
    {X("[02]", "[0,8]"), "invalid token near '0', at byte 30", 8},
    {X("[2.0]", "[0,8]"), "not a non-negative integer", 8},
    {X("[99999999999999999999]", "[0,8]"), "too big integer near", 8},
    {X("[9223372036854775807,2]", "[0,8]"), "size of tensor x does not fit", 8},
    {X("[4611686018427387904]", "[0,0]"), "size of tensor x does not fit", 0},
    {X("[1,1,1,1,1,1,1,1,1]", "[0,4]"), "at most 8 numbers", 4},
    {"{\"x\":{\"dtype\":\"Q4\",\"shape\":[],\"data_offsets\":[0,4]}}", "dtype Q4", 4},
    {"{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", "duplicate object key near",
     4},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"y\":1}}", "left unpacked: y", 4},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
     "offsets\":"
     "[2,4]}}",
     "duplicate object key near '\"x\"'", 4},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
     "offsets\":"
     "[1,3]}}",
     "an overlap before tensor y", 3},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", "duplicate object key near '\"a\"'", 0},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", "duplicate object key near", 0},
    {"{\"__metadata__\":{\"a\":1}}", "a of its __metadata__ is not a string", 0},
    {"{\"__metadata__\":{\"a\":\"\\ud800\"}}", "invalid Unicode", 0},
    {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", "\\u0000 is not allowed", 0},
    {"{\"__metadata__\":{\"a\":\"\\u00g0\"}}", "invalid escape", 0},
    {"{\"__metadata__\":{\"a\":\"\\q\"}}", "invalid escape near '\"\\q'", 0},
    {"{\"__metadata__\":{\"a\":\"\x01\"}}", "control character 0x1", 0},
    {"{\"__metadata__\":{\"a\":\"\xc0\x80\"}}", "unable to decode byte", 0},
    {"{\"__metadata__\":{\"a\":\"\xed\xa0\x80\"}}", "unable to decode byte", 0},
    {"{\"__metadata__\":{\"a\":\"\xce", "unable to decode byte", 0},
    {"{\"__metadata__\":{\"a\":\"b", "premature end of input", 0},
    {"{\"__metadata__\":{\"a\":\"b\"}", "'}' expected near end of file", 0},
    {"{,}", "string or '}' expected near ','", 0},
    {"{\"x\":1}", "tensor x: Expected object", 0},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[]}}", "not found: data_offsets", 0},
    {" {}", "does not begin with '{'", 0},
    {"[]", "does not begin with '{'", 0},
};

static void refuses(void)
{
    struct mf_err err;
    ok(parse(X("[2]", "[0,8]") "   ", 8, &err) == 0, "the unmodified file is valid");
    ok(parse("{\"__metadata__\":{\"\\u0041\":\"\\ud83d\\ude00\"}}", 0, &err) == 0,
       "escapes and surrogate pairs are fine");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        strcpy(err.text, "nothing");
        int rc = parse(broken[i].json, broken[i].n, &err);
        ok(rc == MF_EFORMAT && strstr(err.text, broken[i].says), "%s: %s", broken[i].says, err.text);
    }
    char *many = calloc(1, 3 << 20);
    memset(many, ',', (3 << 20) - 1);
    *many = '{';
    ok(parse(many, 0, &err) == MF_EFORMAT && strstr(err.text, "more than the 2097152 values"), "memory: %s", err.text);
    free(many);
    static const struct {
        const char *bytes, *says;
        size_t n;
    } other[] = {
        {"PK\003\004\0\0\0\0\0\0\0\0", "PyTorch zip", 12},
        {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull", 43},
        {"\211HDF\r\n\032\n\0\0\0\0", "HDF5", 12},
        {"\x02\0\0\0\0\0\0\0", "too few", 8},
        {"\x01\xe1\xf5\x05\0\0\0\0{}", "would be 100000001 bytes", 10},
        {"\x01\0\0\0\0\0\0\0{}", "would be 1 bytes", 10},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", "would be 18446744073709551615", 10},
        {"\x20\0\0\0\0\0\0\0{}", "half-written or cut", 10},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        struct mf_safetensors f;
        int rc = mf_safetensors_parse(&f, other[i].bytes, other[i].n, "F", &err);
        ok(rc == MF_EFORMAT && strstr(err.text, other[i].says), "%s: %s", other[i].says, err.text);
    }
    struct mf_safetensors f;
    ok(mf_safetensors_open(&f, folder, &err) == MF_EFORMAT && strstr(err.text, "a folder"), "a folder");
    ok(mf_safetensors_open(&f, "/nowhere", &err) == MF_EIO && strstr(err.text, "No such file"),
       "a file that is not there");
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    reads_the_reference();
    writes();
    refuses();
    unlink(in_folder("a"));
    unlink(in_folder("b"));
    unlink(in_folder("empty"));
    rmdir(folder);
    return done();
}
