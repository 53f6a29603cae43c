/* Demonstrations as real files hold them, and as broken ones do. */
#include <malloc.h>

#include "demo_file.h"
#include "tap.h"

static char path[] = "/tmp/mf_demos_XXXXXX";
static struct mf_err err;
static const struct mf_demos_opts all = {.cache = 1 << 30};

static void good_file(void)
{
    hid_t file = create(path);
    put(file, "data/demo_10/actions", H5T_IEEE_F64LE, 3, 2, 100, 0);
    put(file, "data/demo_10/obs/pos", H5T_IEEE_F64LE, 3, 3, 10, 1);
    put(file, "data/demo_10/obs/cube", H5T_IEEE_F32LE, 3, 1, 20, 0);
    put(file, "data/demo_10/obs/image", H5T_STD_U8LE, 3, 4, 0, 0);
    put_image(file, "data/demo_10/obs/camera", 3, 2, 0);
    put(file, "data/demo_10/obs/label", H5T_STD_I32LE, 3, 4, 0, 0);
    put(file, "data/demo_2/actions", H5T_IEEE_F32LE, 5, 2, 200, 1);
    put(file, "data/demo_2/obs/pos", H5T_IEEE_F32LE, 5, 3, 30, 0);
    put(file, "data/demo_2/obs/cube", H5T_IEEE_F32BE, 5, 1, 40, 0);
    put(file, "data/demo_2/obs/image", H5T_STD_U8LE, 5, 4, 0, 0);
    put(file, "data/demo_2/obs/label", H5T_STD_I32LE, 5, 4, 0, 0);
    put_image(file, "data/demo_2/obs/camera", 5, 2, 2);
    put_mask(file, "mask/train", 0, 2, (const char *const[]){"demo_10", "demo_2"});
    put_mask(file, "mask/valid", 1, 1, (const char *const[]){"demo_10"});
    put_mask(file, "mask/stale", 1, 1, (const char *const[]){"demo_3"});
    hid_t data = H5Gopen2(file, "data", H5P_DEFAULT);
    mf_h5_set_text(data, "env_args", "{\"env_name\": \"Lift\"}", &err);
    mf_h5_close(data);
    mf_h5_close(file);
}

static void reads(void)
{
    struct mf_demos d;
    good_file();
    int rc = mf_demos_open(&d, path, &all, &err);
    if (!ok(rc == 0, "a good file is read%s%s", rc ? ": " : "", rc ? err.text : ""))
        return;
    ok(d.n_demos == 2 && d.demo[0].id == 2 && d.demo[1].id == 10 && d.total == 8, "demos sort as integers");
    ok(d.demo[0].n == 5 && d.demo[1].n == 3, "each with its steps");
    ok(d.n_columns == 5 && !strcmp(d.column[0].is.name, "actions") && !strcmp(d.column[1].is.name, "cube") &&
           !strcmp(d.column[2].is.name, "image") && !strcmp(d.column[3].is.name, "label") &&
           !strcmp(d.column[4].is.name, "pos") && !d.column[2].is.u8,
       "actions, then keys of numbers in a row by name, bytes too");
    ok(!strcmp(d.unseen, "camera"), "omitted observations are named: %s", d.unseen);
    ok(number(&d, 2, 0, 1, 3) == 3 && number(&d, 3, 0, 1, 3) == 3, "bytes and integers are numbers as they are");
    ok(d.column[0].count == 2 && number(&d, 0, 0, 0, 0) == 200 && number(&d, 0, 0, 1, 1) == 201.5 &&
           number(&d, 0, 1, 0, 0) == 100,
       "actions");
    ok(number(&d, 1, 0, 0, 0) == 40 && number(&d, 4, 0, 0, 0) == 30 && number(&d, 4, 0, 1, 2) == 32.5 &&
           number(&d, 1, 0, 1, 0) == 40.5,
       "big-endian and contiguous floats");
    ok(number(&d, 1, 1, 0, 0) == 20 && number(&d, 4, 1, 0, 0) == 10 && number(&d, 4, 1, 2, 2) == 14,
       "gzipped doubles become floats");
    ok(d.env_args && !strcmp(d.env_args, "{\"env_name\": \"Lift\"}"), "env_args");
    mf_demos_close(&d);
    char name[64];
    ok(mf_demos_env(path, name, &err) == 0 && !strcmp(name, "Lift"), "which name the environment: %s", name);
}

static void chosen(void)
{
    struct mf_demos d;
    struct mf_demos_opts opts = {
        .filter = "valid", .n_keys = 2, .keys = (const char *const[]){"pos", "cube"}, .cache = 1 << 20};
    int rc = mf_demos_open(&d, path, &opts, &err);
    ok(rc == 0 && d.n_demos == 1 && d.total == 3 && number(&d, 1, 0, 0, 0) == 10 && number(&d, 2, 0, 0, 0) == 20,
       "a filter key, keys in my order");
    mf_demos_close(&d);
    opts.keys = (const char *const[]){"camera", "label"};
    opts.filter = "train";
    rc = mf_demos_open(&d, path, &opts, &err);
    ok(rc == 0 && d.n_demos == 2 && d.demo[0].id == 2, "a filter key of fixed strings");
    ok(rc == 0 && d.column[1].is.u8 && d.column[1].is.dim[0] == 2 && d.column[1].is.dim[2] == 3 &&
           d.column[1].bytes == 12 && d.bytes == 8 * (12 + 4 * 4 + 2 * 4),
       "images by name, with their shape, a byte each");
    ok(number(&d, 1, 0, 0, 0) == 240 && number(&d, 1, 0, 1, 3) == 255 && number(&d, 1, 0, 1, 5) == 1, "their bytes");
    ok(!d.column[2].is.u8 && number(&d, 2, 1, 2, 3) == 5, "integers become floats");
    mf_demos_close(&d);
}

/* A demo of 300 images, 3.5 MiB, in a cache that holds `cache` bytes. */
static void streams(size_t cache, hsize_t chunk)
{
    struct mf_demos d;
    struct mf_demos_opts opts = {.n_keys = 1, .keys = (const char *const[]){"camera"}, .cache = cache};
    hid_t file = create(path);
    put(file, "data/demo_0/actions", H5T_IEEE_F32LE, 300, 2, 0, 0);
    put(file, "data/demo_0/obs/pos", H5T_IEEE_F32LE, 300, 2, 0, 0);
    put_image(file, "data/demo_0/obs/camera", 300, 64, chunk);
    mf_h5_close(file);
    int rc = mf_demos_open(&d, path, &opts, &err), good = rc == 0;
    size_t before = mallinfo2().uordblks, most = 0;
    for (size_t k = 0; good && k < 900; k++) {
        size_t t = k * 7919 % 300, j = k * 104729 % 12288, i = t * 12288 + j;
        good = number(&d, 1, 0, t, j) == (uint8_t)(240 + i + i / 1000) && number(&d, 0, 0, t, 1) == .5 + (double)t;
        most = mallinfo2().uordblks - before > most ? mallinfo2().uordblks - before : most;
    }
    ok(good, "a cache of %zu bytes, chunks of %d rows: every number", cache, (int)chunk);
    ok(most < cache + (cache < 4 << 20 ? 1 << 20 : 0) &&
           (cache < 4 << 20 || most > 3 << 20 || most == 0) /* 0: under a sanitizer */,
       "%zu bytes held", most);
    if (rc == 0)
        mf_demos_close(&d);
}

static void refuses(const struct mf_demos_opts *opts, int code, const char *says, const char *what)
{
    struct mf_demos d;
    int rc = mf_demos_open(&d, path, opts, &err);
    for (size_t i = 0; rc == 0 && i < d.n_demos; i++) /* NaN is met where it lies */
        for (int k = 0; k < d.n_columns && rc == 0; k++) {
            const void *rows;
            size_t n;
            rc = mf_demos_rows(&d, k, i, 0, &rows, &n, &err);
        }
    if (!ok(rc == code && strstr(err.text, says), "%s", what))
        printf("#   rc %d: %s\n", rc, rc ? err.text : "");
    mf_demos_close(&d);
}

static void write_bytes(const char *bytes)
{
    FILE *f = fopen(path, "w");
    fputs(bytes, f);
    fclose(f);
}

static void broken_files(void)
{
    write_bytes("");
    refuses(&all, MF_EFORMAT, "is empty", "an empty file");
    write_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
    refuses(&all, MF_EFORMAT, "git lfs pull", "a Git LFS pointer");
    write_bytes("PK\3\4 something else");
    refuses(&all, MF_EFORMAT, "not an HDF5 file", "another format");
    unlink(path);
    refuses(&all, MF_EIO, "No such file", "no file");
    good_file();
    ok(truncate(path, 4000) == 0, "a file is cut");
    refuses(&all, MF_EFORMAT, "truncated at 4000 bytes", "a truncated file");
}

static void odd_files(void)
{
    struct mf_demos_opts opts = {.filter = "best"};
    good_file();
    refuses(&opts, MF_EUSAGE, "has: stale, train, valid", "an unknown filter key lists those that exist");
    opts.filter = "stale";
    refuses(&opts, MF_EFORMAT, "demo_3", "a filter key that names a demo which is not there");
    opts = (struct mf_demos_opts){.n_keys = 1, .keys = (const char *const[]){"speed"}};
    refuses(&opts, MF_EFORMAT, "obs/speed", "an observation that is not there");
    hid_t file = create(path);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 2, 2, 0, 0);
    put_mask(file, "data/demo_0/obs/words", 1, 2, (const char *const[]){"go", "stop"});
    mf_h5_close(file);
    opts.keys = (const char *const[]){"words"};
    refuses(&opts, MF_EFORMAT, "texts, not numbers", "an observation of texts");
    file = create(path);
    put(file, "data/demo_0/actions", H5T_IEEE_F32LE, 2, 2, 0, 0);
    hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(4, (hsize_t[]){2, 4, 4, 1}, NULL);
    H5Pset_create_intermediate_group(links, 1);
    mf_h5_close(H5Dcreate2(file, "data/demo_0/obs/camera", H5T_STD_U16LE, space, links, H5P_DEFAULT, H5P_DEFAULT));
    mf_h5_close(space), mf_h5_close(links), mf_h5_close(file);
    opts.keys = (const char *const[]){"camera"};
    refuses(&opts, MF_EFORMAT, "pictures of <u2: store", "depth in whole millimeters");
    file = create(path);
    put(file, "traj_0/actions", H5T_IEEE_F64LE, 2, 2, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "at its top there is: traj_0", "no /data, but another's layout");
    file = create(path);
    mf_h5_close(H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "no demo_", "no demos");
    file = create(path);
    put(file, "data/demo_0/states", H5T_IEEE_F64LE, 3, 9, 0, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "dataset_states_to_obs", "a raw robosuite file");
    file = create(path);
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 9, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "no /data/demo_0/actions", "no actions");
    file = create(path);
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 4, 9, 0, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "3 actions and 4 of obs/x", "rows that do not agree");
    file = create(path);
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 2, 0, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    put(file, "data/demo_1/obs/x", H5T_IEEE_F64LE, 3, 2, 0, 0);
    put(file, "data/demo_1/actions", H5T_IEEE_F64LE, 3, 3, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "2 numbers in demo_0 and 3 numbers in demo_1", "action sizes that do not agree");
    file = create(path);
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 2, NAN, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "/data/demo_0/obs/x[0, 0] is nan", "NaN has an address");
    file = create(path);
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 2, 1e30, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "/data/demo_0/obs/x[0, 0] is 1e+30, beyond", "so has a number that overflows");
}

/* Headers that promise terabytes. */
static void liars(void)
{
    hid_t file = create(path), plist = H5Pcreate(H5P_DATASET_CREATE);
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 2, 0, 0);
    hid_t space = H5Screate_simple(2, (hsize_t[]){1 << 30, 1 << 10}, NULL);
    H5Pset_chunk(plist, 2, (hsize_t[]){1, 1 << 10});
    hid_t set = H5Dcreate2(file, "data/demo_0/actions", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    float row[1 << 10] = {0};
    hid_t part = H5Scopy(space), memory = H5Screate_simple(2, (hsize_t[]){1, 1 << 10}, NULL);
    H5Sselect_hyperslab(part, H5S_SELECT_SET, (hsize_t[]){0, 0}, NULL, (hsize_t[]){1, 1 << 10}, NULL);
    H5Dwrite(set, H5T_NATIVE_FLOAT, memory, part, H5P_DEFAULT, row);
    mf_h5_close(set), mf_h5_close(memory), mf_h5_close(part), mf_h5_close(space), mf_h5_close(plist);
    mf_h5_close(file);
    refuses(&all, MF_EFORMAT, "cannot lie in a file", "a header that promises 4 TiB");
}

int main(void)
{
    mf_h5_quiet();
    close(mkstemp(path));
    reads();
    chosen();
    streams(1, 0), streams(1, 7), streams(1 << 20, 7), streams(8 << 20, 7);
    broken_files();
    odd_files();
    liars();
    unlink(path);
    return done();
}
