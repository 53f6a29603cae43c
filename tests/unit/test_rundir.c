#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "stage/rundir.h"
#include "tap.h"

static struct mf_err err;

/* The first `bytes` of the smallest safetensors file there is. */
static void checkpoint(const char *dir, long long version, size_t bytes)
{
    char path[MF_PATH_MAX];
    mf_runs_version(dir, version, path);
    FILE *f = fopen(path, "w");
    if (!f || fwrite("\2\0\0\0\0\0\0\0{}", 1, bytes, f) != bytes || fclose(f))
        abort();
}

static int open_run(struct mf_rundir *r, const char *dir, bool resume, bool force)
{
    return mf_rundir_open(r, &(struct mf_rundir_opts){.dir = dir, .task = "lift", .resume = resume, .force = force},
                          &err);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}

static bool holds(const char *path, const char *want)
{
    char text[4096];
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return strstr(text, want) != NULL;
}

/* Existing files stay unchanged until the run is accepted. */
static void accepting(void)
{
    struct mf_rundir a;
    struct mf_conf *conf = mf_conf_new();
    char path[MF_PATH_MAX];
    open_run(&a, "kept", false, false);
    checkpoint("kept", 3, 10);
    put("kept/configs/machine", "there\n"), put("kept/configs/mf-x.yaml", "was\n"), put("kept/logs/mf-x.log", "old\n");
    mf_rundir_close(&a);
    ok(open_run(&a, "kept", false, true) == 0 && mf_runs_newest("kept", path) &&
           holds("kept/configs/machine", "there") && holds("kept/configs/mf-x.yaml", "was") &&
           holds("kept/logs/mf-x.log", "old\n"),
       "a run that is opened by force has changed nothing yet");
    mf_log(MF_LOG_WARN, "logged before");
    mf_rundir_accepted(&a);
    ok(!mf_runs_newest("kept", path) && !holds("kept/configs/machine", "there"),
       "once accepted, it removes the old run and logs the folder");
    ok(mf_rundir_join("kept", "mf-x", conf) && holds("kept/configs/mf-x.yaml", "seed: 0") &&
           access("kept/configs/mf-x.yaml.part", F_OK) < 0 && holds("kept/logs/mf-x.log", "old\n") &&
           holds("kept/logs/mf-x.log", "mf: warn: logged before\n"),
       "its program writes its configuration and a log, with the messages so far");
    ok(!mf_rundir_join("kept", "mf-x", conf) && mf_rundir_join("kept", "mf-y", conf),
       "another of the same name does not, one of another name does");
    mf_log_tee(-1);
    mf_rundir_close(&a);
    mf_conf_free(conf);
}

/* One scheme: outputs/SHELF/RUN and outputs/SHELF/latest. */
static void places(void)
{
    struct mf_rundir a;
    char to[64] = "";
    ok(open_run(&a, "outputs/shelf/ppo", false, false) == 0 && readlink("outputs/shelf/latest", to, 63) < 0,
       "a run on a shelf, named by run.dir");
    mf_rundir_accepted(&a);
    mf_rundir_begun(&a);
    ok(readlink("outputs/shelf/latest", to, 63) == 3 && !strcmp(to, "ppo"), "is its latest once it has learned");
    mf_rundir_close(&a);
    ok(open_run(&a, "outputs/shelf", false, true) == MF_EUSAGE &&
           strstr(err.text, "outputs/shelf is a folder of runs (such as ") &&
           strstr(err.text, "run.dir=outputs/shelf/NAME"),
       "a shelf is no run: %s", err.text);
    ok(open_run(&a, "outputs/shelf/ppo/deep/in", false, false) == MF_EUSAGE &&
           strstr(err.text, "lies in the run outputs/shelf/ppo") && access("outputs/shelf/ppo/deep", F_OK) < 0,
       "a run holds none: %s", err.text);
    ok(open_run(&a, "outputs/lift2", false, false) == 0, "a run beside the shelves has no link");
    mf_rundir_accepted(&a);
    mf_rundir_begun(&a);
    ok(access("outputs/latest", F_OK) < 0 && access("latest", F_OK) < 0, "nor makes one");
    mf_rundir_close(&a);
    ok(mf_rundir_open(&a, &(struct mf_rundir_opts){.task = "lift2"}, &err) == MF_EUSAGE &&
           strstr(err.text, "lies in the run"),
       "the default place may be a run of another time: %s", err.text);
    ok(mkdir("home", 0777) == 0 && mkdir("home/checkpoints", 0777) == 0 && open_run(&a, "home/a", false, false) == 0,
       "a folder of checkpoints of other programs is no run");
    mf_rundir_close(&a);
    ok(mf_rundir_open(&a, &(struct mf_rundir_opts){.task = ".."}, &err) == 0 && !strncmp(a.path, "outputs/_./2", 12),
       "a task called .. is a name");
    mf_rundir_close(&a);
}

/* A run that was refused leaves what was there before it. */
static void refused(void)
{
    struct mf_rundir a;
    ok(open_run(&a, "new/deep/run", false, false) == 0 && access("new/deep/run/logs", F_OK) == 0, "a run opens");
    put("new/deep/run/learner.lock", ""); /* of a learner that has ended */
    mf_rundir_close(&a);
    ok(access("new", F_OK) < 0, "refused, it leaves neither its folder nor those above it");
    ok(mkdir("mine", 0777) == 0 && mkdir("mine/logs", 0777) == 0 && open_run(&a, "mine", false, false) == 0,
       "in a folder that is there");
    mf_rundir_close(&a);
    ok(access("mine/logs", F_OK) == 0 && access("mine/configs", F_OK) < 0 && access("mine/lock", F_OK) < 0,
       "only what it made is removed");
    ok(open_run(&a, "used/run", false, false) == 0, "a run opens");
    put("used/run/checkpoints/note", "");
    mf_rundir_close(&a);
    ok(access("used/run/checkpoints/note", F_OK) == 0 && access("used/run/lock", F_OK) == 0,
       "what others put in stays, and the run");
}

static void sockets(void)
{
    char deep[300] = "deep", address[1100], again[1100];
    struct stat st;
    ok(mf_rundir_socket("a/run", address, sizeof address, &err) == 0 && !strcmp(address, "ipc://a/run/policy.sock"),
       "the policy's socket lies in the run");
    while (strlen(deep) < 120)
        strcat(deep, "/abcdefghij");
    mkdir("runtime", 0700);
    char *where = realpath("runtime", NULL), command[400];
    setenv("XDG_RUNTIME_DIR", where, 1);
    snprintf(command, sizeof command, "mkdir -p %s", deep);
    ok(system(command) == 0 && mf_rundir_socket(deep, address, sizeof address, &err) == 0 &&
           !strncmp(address + 6, where, strlen(where)) && strlen(address) < 6 + 108 &&
           mf_rundir_socket(deep, again, sizeof again, &err) == 0 && !strcmp(address, again),
       "of one that is too deep, elsewhere: %s", address);
    *strrchr(address, '/') = '\0';
    ok(stat(address + 6, &st) == 0 && (st.st_mode & 0777) == 0700, "in a folder of our own");
    ok(chmod(address + 6, 0777) == 0 && mf_rundir_socket(deep, again, sizeof again, &err) == 0 &&
           strncmp(again, address, strlen(address)) != 0,
       "one that others may write is not trusted: %s", again);
    free(where);
}

int main(void)
{
    char where[] = "/tmp/mf-rundir-XXXXXX", path[MF_PATH_MAX];
    struct mf_rundir a, b;
    struct stat st;
    if (!mkdtemp(where) || chdir(where))
        return 1;
    ok(open_run(&a, "deep/down/run", false, false) == 0, "a folder is made with its parents");
    ok(stat("deep/down/run/checkpoints", &st) == 0 && stat("deep/down/run/logs", &st) == 0, "and its rooms");
    ok(open_run(&b, "deep/down/run", false, false) == MF_EIO && strstr(err.text, "in progress"),
       "a second run there is refused");
    ok(mf_rundir_is_live("deep/down/run"), "it is live while it is locked");
    ok(!mf_runs_newest("deep/down/run", path), "no checkpoint yet");
    for (long long v = 1; v <= 25; v++)
        checkpoint("deep/down/run", v, 10);
    ok(mf_runs_newest("deep/down/run", path) && strstr(path, "000025.safetensors"), "the newest by number");
    checkpoint("deep/down/run", 26, 9);
    ok(mf_runs_newest("deep/down/run", path) && strstr(path, "000025.safetensors"), "one that is cut is passed over");
    unlink("deep/down/run/checkpoints/000026.safetensors");
    mf_rundir_prune("deep/down/run", 25, &(struct mf_rundir_kept){.newest = 3, .every = 1, .interval = 4});
    for (long long v = 4; v < 25; v += 4) {
        mf_runs_version("deep/down/run", v, path);
        ok(access(path, F_OK) == 0, "without a bound, each fourth stays: %lld", v);
    }
    mf_rundir_prune("deep/down/run", 25, &(struct mf_rundir_kept){.newest = 3, .every = 1, .interval = 4, .most = 2});
    int left = 0;
    for (long long v = 1; v <= 25; v++) {
        mf_runs_version("deep/down/run", v, path);
        left += access(path, F_OK) == 0;
    }
    mf_runs_version("deep/down/run", 20, path);
    ok(left == 4 && access(path, F_OK) == 0,
       "pruned to the newest 3 and, of each fourth, the newest 2: 20, 23, 24, 25");
    for (long long v = 1; v <= 40; v++) { /* each third, and one at the end of a start */
        mf_runs_version("deep/down/run", v, path);
        unlink(path);
        if (v % 3 == 0 || v == 35 || v == 13)
            checkpoint("deep/down/run", v, 10);
    }
    mf_rundir_prune("deep/down/run", 39, &(struct mf_rundir_kept){.newest = 3, .every = 3, .interval = 10, .most = 2});
    char have[200] = "";
    for (long long v = 1; v <= 40; v++) {
        mf_runs_version("deep/down/run", v, path);
        if (access(path, F_OK) == 0)
            snprintf(have + strlen(have), sizeof have - strlen(have), "%lld ", v);
    }
    ok(!strcmp(have, "21 30 33 35 36 39 "), "saved at an interval: the newest 3, and the first of the last 2 tens: %s",
       have);
    mf_rundir_close(&a);
    ok(!mf_rundir_is_live("deep/down/run"), "closed, it is not");
    ok(open_run(&a, "deep/down/run", false, false) == MF_EUSAGE && strstr(err.text, "run.resume"),
       "a used folder is refused, with advice");
    ok(open_run(&a, "deep/down/run", true, false) == 0 && mf_runs_newest(a.path, path), "unless the run resumes");
    mf_rundir_close(&a);
    ok(open_run(&a, "deep/down/run", false, true) == 0, "or is forced");
    mf_rundir_close(&a);
    ok(open_run(&a, NULL, false, false) == 0 && !strncmp(a.path, "outputs/lift/", 13),
       "by default it is outputs/TASK/DATE-TIME");
    ok(lstat("outputs/lift/latest", &st) < 0, "without a link latest, as long as it has learned nothing");
    mf_rundir_begun(&a);
    ok(stat("outputs/lift/latest/checkpoints", &st) == 0, "and then with it");
    ok(open_run(&b, NULL, false, false) == 0 && strcmp(a.path, b.path), "two in a second differ");
    ok(readlink("outputs/lift/latest", path, sizeof path) == (ssize_t)strlen(strrchr(a.path, '/') + 1) &&
           !strncmp(path, strrchr(a.path, '/') + 1, strlen(strrchr(a.path, '/') + 1)),
       "and the second one's start does not move it");
    mf_rundir_close(&a);
    mf_rundir_close(&b);
    accepting();
    places();
    refused();
    sockets();
    snprintf(path, sizeof path, "rm -rf %s", where);
    return system(path) || done();
}
