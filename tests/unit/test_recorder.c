/* A stream into HDF5 and back, byte for byte, and its layout for robomimic's readers. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demos/playback.h"
#include "demos/recorder.h"
#include "demo_file.h"
#include "tap.h"

enum { T = 5, N = 2, TO = 2, O = 3, A = 2, FRAMES = 4 };

static char dir[] = "/tmp/mf_recorder_XXXXXX", path[64], part[80];
static struct mf_err err;

struct bytes {
    void *p;
    size_t n;
};

/* An array of counting numbers: element i is i + base. */
static void add(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim, int base)
{
    void *data = NULL;
    if (mf_frame_add(f, name, dtype, rank, dim, &data, &err))
        ok(0, "%s: %s", name, err.text);
    struct mf_array *a = mf_frame_find(f, name);
    for (size_t i = 0; i < a->count; i++)
        if (dtype == MF_F32)
            ((float *)data)[i] = (float)((int)i + base);
        else if (mf_dtype_size(dtype) == 1)
            ((uint8_t *)data)[i] = (uint8_t)((int)i + base);
}

static struct mf_frame *head(void)
{
    struct mf_frame *f = mf_frame_new(MF_HEAD);
    mf_frame_set_int(f, "v", 1);
    mf_frame_set_str(f, "spec.env", "lift");
    mf_frame_set_str(f, "spec.robomimic_name", "Li\"ft");
    return f;
}

/* Environment 0 ends at t = 2 and is reset at t = 3; environment 1 runs through. */
static struct mf_frame *rollout(size_t C)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", 7);
    mf_frame_set_ints(f, "envs", (const int64_t[]){10, N}, 2);
    mf_frame_set_str(f, "whatever.else", "stays");
    add(f, "obs/x", MF_F32, 4, (const size_t[]){T, N, TO, O}, 0);
    add(f, "obs/image", MF_U8, 6, (const size_t[]){T, N, 1, 4, 4, 3}, 3);
    add(f, "actions", MF_F32, 4, (const size_t[]){T, N, C, A}, 1000);
    add(f, "rewards", MF_F32, 3, (const size_t[]){T, N, C}, 0);
    float *rewards = mf_frame_find(f, "rewards")->data;
    add(f, "n_exec", MF_I32, 2, (const size_t[]){T, N}, 0);
    int32_t *n_exec = mf_frame_find(f, "n_exec")->data;
    for (int i = 0; i < T * N; i++)
        n_exec[i] = (int32_t)C;
    n_exec[2 * N] = C > 1 ? 2 : 1; /* it ended there: what follows in the chunk is nobody's */
    for (size_t c = 2; c < C; c++)
        rewards[2 * N * C + c] = NAN;
    add(f, "chains", MF_F32, 5, (const size_t[]){T, N, 5, 4, A}, 0);
    add(f, "terminated", MF_U8, 2, (const size_t[]){T, N}, 0);
    add(f, "valid", MF_U8, 2, (const size_t[]){T, N}, 0);
    uint8_t *terminated = mf_frame_find(f, "terminated")->data, *valid = mf_frame_find(f, "valid")->data;
    memset(terminated, 0, T * N);
    memset(valid, 1, T * N);
    terminated[2 * N] = 1;
    valid[3 * N] = 0;
    static const char *const odd[] = {"a", "a/b", "./a", "/data/demo_0", "a", ".", "no bytes"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        add(f, odd[i], MF_U8, 1, (const size_t[]){i < 6 ? 300 : 0}, (int)i);
    add(f, "half", MF_F16, 1, (const size_t[]){70000}, 0);
    return f;
}

static struct mf_frame *end(void)
{
    struct mf_frame *f = mf_frame_new(MF_END);
    mf_frame_set_int(f, "frames", 3);
    return f;
}

/* Records frames of the test as if from another program. Returns the first failure. */
static int record(struct mf_frame *frames[FRAMES], struct bytes raw[FRAMES])
{
    struct mf_recorder *r;
    int rc = mf_recorder_open(&r, path, &err);
    if (rc)
        return rc;
    for (int i = 0; i < FRAMES && frames[i]; i++) {
        struct mf_frame *came;
        rc = mf_frame_encode(frames[i], &raw[i].p, &raw[i].n, &err);
        rc = rc ? rc : mf_frame_decode(&came, raw[i].p, raw[i].n, &err);
        mf_frame_free(frames[i]);
        if (rc == 0) {
            rc = mf_recorder_add(r, came, &err);
            mf_frame_free(came);
        }
        if (rc) {
            mf_recorder_drop(r);
            return rc;
        }
    }
    ok(access(path, F_OK) && access(part, F_OK) == 0, "the file grows under another name");
    return mf_recorder_close(r, &err);
}

static void play_back(const struct bytes raw[FRAMES], int n, int stopped)
{
    struct mf_playback *p;
    const void *data;
    size_t len;
    int rc = mf_playback_open(&p, path, &err), i;
    if (!ok(rc == 0, "it opens for replay%s%s", rc ? ": " : "", rc ? err.text : ""))
        return;
    ok(mf_playback_stopped(p) == stopped, "it says %s", stopped ? "that no end came" : "that it is whole");
    for (i = 0; (rc = mf_playback_next(p, &data, &len, &err)) == 1; i++)
        ok(i < n && len == raw[i].n && !memcmp(data, raw[i].p, len), "frame %d comes back byte for byte", i);
    ok(rc == 0 && i == n, "and then none%s%s", rc < 0 ? ": " : "", rc < 0 ? err.text : "");
    mf_playback_close(p);
}

static void demonstrations(void)
{
    struct mf_demos d;
    struct mf_demos_opts opts = {.n_keys = 1, .keys = (const char *const[]){"x"}, .cache = 1 << 20};
    int rc = mf_demos_open(&d, path, &opts, &err);
    if (!ok(rc == 0, "robomimic's layout%s%s", rc ? ": " : "", rc ? err.text : ""))
        return;
    ok(d.n_demos == 3 && d.demo[0].n == 3 && d.demo[1].n == 1 && d.demo[2].n == 5,
       "a demo per part of an episode, reset rows in none");
    ok(d.column[1].count == O && number(&d, 1, 0, 0, 0) == TO * O - O &&
           number(&d, 1, 0, 1, 0) == 2 * N * TO * O / 2 + TO * O - O,
       "the newest observation of each row of its environment");
    ok(number(&d, 0, 1, 0, 0) == 1000 + 4 * N * A && number(&d, 0, 2, 0, 1) == 1000 + A + 1, "actions");
    ok(!strcmp(d.env_args, "{\"env_name\": \"Li\\\"ft\", \"type\": 1, \"env_kwargs\": {}}"), "env_args: %s",
       d.env_args);
    mf_demos_close(&d);
}

static void summed_rewards(void)
{
    float got[3] = {0};
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "data/demo_0/rewards", H5P_DEFAULT);
    H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, got);
    H5Dclose(set);
    H5Fclose(file);
    ok(got[0] == 0 + 1 + 2 + 3 && got[1] == 8 + 9 + 10 + 11 && got[2] == 16 + 17,
       "rewards are summed over the executed steps of a chunk: %g %g %g", (double)got[0], (double)got[1],
       (double)got[2]);
}

static void round_trip(void)
{
    struct bytes raw[FRAMES];
    struct mf_frame *frames[FRAMES] = {head(), rollout(1), rollout(1), end()};
    int rc = record(frames, raw);
    ok(rc == 0 && access(part, F_OK), "a stream is recorded%s%s", rc ? ": " : "", rc ? err.text : "");
    play_back(raw, FRAMES, 0);
    for (int i = 0; i < FRAMES; i++)
        free(raw[i].p);
    unlink(path);
    struct mf_frame *cut[FRAMES] = {head(), rollout(1)};
    rc = record(cut, raw);
    play_back(raw, 2, 1);
    demonstrations();
    free(raw[0].p), free(raw[1].p);
    unlink(path);
    struct mf_frame *chunks[FRAMES] = {head(), rollout(4), end()};
    struct mf_demos d;
    rc = record(chunks, raw);
    ok(rc == 0 && mf_demos_open(&d, path, &(struct mf_demos_opts){.cache = 1}, &err) == MF_EFORMAT &&
           strstr(err.text, "chunks of 4 actions"),
       "chunks are no demonstrations to clone");
    summed_rewards();
    play_back(raw, 3, 0);
    free(raw[0].p), free(raw[1].p), free(raw[2].p);
    unlink(path);
}

/* In a process of its own, since HDF5 leaks data that it could not write. */
static void full_disk(void)
{
    int status;
    fflush(stdout);
    if (fork() == 0) {
        struct bytes raw[FRAMES] = {{0}};
        struct mf_frame *frames[FRAMES] = {head(), rollout(4)};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 16, 1 << 16});
        _exit(record(frames, raw) == MF_EIO && strstr(err.text, part) && strstr(err.text, "File too large") ? 0 : 1);
    }
    ok(wait(&status) > 0 && status == 0, "a full disk is an error");
    ok(access(path, F_OK) && access(part, F_OK), "and nothing is left");
}

static void wrong_shapes(void)
{
    struct bytes raw[FRAMES] = {{0}};
    struct mf_frame *f = rollout(1);
    add(f, "obs/y", MF_F32, 3, (const size_t[]){T, N + 1, 1}, 0);
    int rc = record((struct mf_frame *[FRAMES]){head(), f}, raw);
    ok(rc == MF_EFORMAT && strstr(err.text, "'obs/y'"), "an observation of another shape: %s", rc ? err.text : "");
    free(raw[0].p), free(raw[1].p);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    sprintf(path, "%s/x.hdf5", dir);
    sprintf(part, "%s.part", path);
    round_trip();
    full_disk();
    wrong_shapes();
    rmdir(dir);
    return done();
}
