/* Demonstrations as real files hold them, and as broken ones do. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/demos.h"
#include "data/h5.h"
#include "tap.h"

static char path[] = "/tmp/mf_demos_XXXXXX";
static struct mf_err err;

static hid_t create(void)
{
    return H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

/* rows x dim doubles of base + 0.5*i, stored as `type`, gzipped in chunks when `gzip`. dim 0: 1-D. */
static void put(hid_t file, const char *name, hid_t type, hsize_t rows, hsize_t dim, double base, int gzip)
{
    hsize_t shape[2] = {rows, dim}, chunk[2] = {2, dim};
    size_t n = rows * (dim ? dim : 1);
    double *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = base + 0.5 * (double)i;
    hid_t links = H5Pcreate(H5P_LINK_CREATE), plist = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (gzip) {
        H5Pset_chunk(plist, 2, chunk);
        H5Pset_deflate(plist, 4);
    }
    hid_t space = H5Screate_simple(dim ? 2 : 1, shape, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, links, plist, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
    mf_h5_close(set), mf_h5_close(space), mf_h5_close(plist), mf_h5_close(links);
    free(x);
}

/* uint8 (rows, 2, 3, 3): 240, 241, .. */
static void put_image(hid_t file, const char *name, hsize_t rows)
{
    uint8_t x[5 * 18];
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (uint8_t)(240 + i);
    hid_t set, space = H5Screate_simple(4, (hsize_t[]){rows, 2, 3, 3}, NULL);
    set = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
    mf_h5_close(set), mf_h5_close(space);
}

static void put_mask(hid_t file, const char *name, int variable, hsize_t n, const char *const *names)
{
    char fixed[8][16] = {{0}};
    hid_t type = H5Tcopy(H5T_C_S1), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    H5Tset_size(type, variable ? H5T_VARIABLE : sizeof fixed[0]);
    for (hsize_t i = 0; i < n; i++)
        strcpy(fixed[i], names[i]);
    hid_t space = H5Screate_simple(1, &n, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, variable ? (const void *)names : fixed);
    mf_h5_close(set), mf_h5_close(space), mf_h5_close(type), mf_h5_close(links);
}

static void good_file(void)
{
    hid_t file = create();
    put(file, "data/demo_10/actions", H5T_IEEE_F64LE, 3, 2, 100, 0);
    put(file, "data/demo_10/obs/pos", H5T_IEEE_F64LE, 3, 3, 10, 1);
    put(file, "data/demo_10/obs/cube", H5T_IEEE_F32LE, 3, 1, 20, 0);
    put(file, "data/demo_10/obs/image", H5T_STD_U8LE, 3, 4, 0, 0);
    put_image(file, "data/demo_10/obs/camera", 3);
    put(file, "data/demo_2/actions", H5T_IEEE_F32LE, 5, 2, 200, 1);
    put(file, "data/demo_2/obs/pos", H5T_IEEE_F32LE, 5, 3, 30, 0);
    put(file, "data/demo_2/obs/cube", H5T_IEEE_F32BE, 5, 1, 40, 0);
    put(file, "data/demo_2/obs/image", H5T_STD_U8LE, 5, 4, 0, 0);
    put(file, "data/demo_2/obs/label", H5T_STD_I32LE, 5, 4, 0, 0);
    put_image(file, "data/demo_2/obs/camera", 5);
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
    int rc = mf_demos_read(&d, path, NULL, &err);
    if (!ok(rc == 0, "a good file is read%s%s", rc ? ": " : "", rc ? err.text : ""))
        return;
    ok(d.n_demos == 2 && d.demo[0].id == 2 && d.demo[1].id == 10 && d.total == 8, "demos sort as integers");
    ok(d.demo[0].start == 0 && d.demo[0].n == 5 && d.demo[1].start == 5 && d.demo[1].n == 3, "rows follow each other");
    ok(d.n_keys == 2 && d.obs_dim == 4 && !strcmp(d.key[0].name, "cube") && !strcmp(d.key[1].name, "pos"),
       "plain float keys by name, images left out");
    ok(d.action_dim == 2 && d.actions[0] == 200 && d.actions[3] == 201.5f && d.actions[10] == 100, "actions");
    ok(d.obs[0] == 40 && d.obs[1] == 30 && d.obs[7] == 32.5f && d.obs[4] == 40.5f, "big-endian and contiguous floats");
    ok(d.obs[20] == 20 && d.obs[21] == 10 && d.obs[31] == 14, "gzipped doubles become floats");
    ok(d.env_args && !strcmp(d.env_args, "{\"env_name\": \"Lift\"}"), "env_args");
    mf_demos_release(&d);

    struct mf_demos_opts opts = {.filter = "valid", .n_keys = 2, .keys = (const char *const[]){"pos", "cube"}};
    rc = mf_demos_read(&d, path, &opts, &err);
    ok(rc == 0 && d.n_demos == 1 && d.total == 3 && d.obs[0] == 10 && d.obs[3] == 20, "a filter key, keys in my order");
    mf_demos_release(&d);
    opts.keys = (const char *const[]){"camera", "cube"};
    rc = mf_demos_read(&d, path, &opts, &err);
    ok(rc == 0 && d.key[0].u8 && d.key[0].dim[0] == 2 && d.key[0].dim[2] == 3 && !d.key[1].u8 && d.obs_dim == 19,
       "images by name, with their shape");
    ok(d.obs[0] == 240 && d.obs[15] == 255 && d.obs[17] == 1 && d.obs[18] == 20 && d.obs[19] == 2,
       "their bytes as floats, beside other keys");
    mf_demos_release(&d);
    opts = (struct mf_demos_opts){.filter = "train"};
    rc = mf_demos_read(&d, path, &opts, &err);
    ok(rc == 0 && d.n_demos == 2 && d.demo[0].id == 2, "a filter key of fixed strings");
    mf_demos_release(&d);
}

static void refuses(const struct mf_demos_opts *opts, int code, const char *says, const char *what)
{
    struct mf_demos d;
    int rc = mf_demos_read(&d, path, opts, &err);
    if (!ok(rc == code && strstr(err.text, says) && !d.obs && !d.demo, "%s", what))
        printf("#   rc %d: %s\n", rc, rc ? err.text : "");
    if (rc == 0)
        mf_demos_release(&d);
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
    refuses(NULL, MF_EFORMAT, "is empty", "an empty file");
    write_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
    refuses(NULL, MF_EFORMAT, "git lfs pull", "a Git LFS pointer");
    write_bytes("PK\3\4 something else");
    refuses(NULL, MF_EFORMAT, "not an HDF5 file", "another format");
    unlink(path);
    refuses(NULL, MF_EIO, "No such file", "no file");
    good_file();
    ok(truncate(path, 4000) == 0, "a file is cut");
    refuses(NULL, MF_EFORMAT, "truncated at 4000 bytes", "a truncated file");
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
    opts.keys = (const char *const[]){"label"};
    refuses(&opts, MF_EFORMAT, "does not hold floats", "an observation of integers");
    mf_h5_close(create());
    refuses(NULL, MF_EFORMAT, "no /data", "no /data");
    hid_t file = create();
    mf_h5_close(H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    mf_h5_close(file);
    refuses(NULL, MF_EFORMAT, "no demo_", "no demos");
    file = create();
    put(file, "data/demo_0/states", H5T_IEEE_F64LE, 3, 9, 0, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(NULL, MF_EFORMAT, "dataset_states_to_obs", "a raw robosuite file");
    file = create();
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 9, 0, 0);
    mf_h5_close(file);
    refuses(NULL, MF_EFORMAT, "no /data/demo_0/actions", "no actions");
    file = create();
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 4, 9, 0, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(NULL, MF_EFORMAT, "3 actions and 4 of obs/x", "rows that do not agree");
    file = create();
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 2, 0, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    put(file, "data/demo_1/obs/x", H5T_IEEE_F64LE, 3, 2, 0, 0);
    put(file, "data/demo_1/actions", H5T_IEEE_F64LE, 3, 3, 0, 0);
    mf_h5_close(file);
    refuses(NULL, MF_EFORMAT, "2 numbers in demo_0 and 3 in demo_1", "action sizes that do not agree");
    file = create();
    put(file, "data/demo_0/obs/x", H5T_IEEE_F64LE, 3, 2, NAN, 0);
    put(file, "data/demo_0/actions", H5T_IEEE_F64LE, 3, 2, 0, 0);
    mf_h5_close(file);
    refuses(NULL, MF_EMATH, "/data/demo_0/obs/x[0, 0] is nan", "NaN has an address");
}

/* Headers that promise terabytes. */
static void liars(void)
{
    hid_t file = create(), plist = H5Pcreate(H5P_DATASET_CREATE);
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
    refuses(NULL, MF_EFORMAT, "cannot lie in a file", "a header that promises 4 TiB");
}

int main(void)
{
    mf_h5_quiet();
    close(mkstemp(path));
    reads();
    broken_files();
    odd_files();
    liars();
    unlink(path);
    return done();
}
