#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int main(void)
{
    char where[] = "/tmp/mf-rundir-XXXXXX", path[MF_PATH_MAX];
    struct mf_rundir a, b;
    struct stat st;
    if (!mkdtemp(where) || chdir(where))
        return 1;
    ok(mf_rundir_open(&a, "deep/down/run", "point", false, false, &err) == 0, "a folder is made with its parents");
    ok(stat("deep/down/run/checkpoints", &st) == 0 && stat("deep/down/run/logs", &st) == 0, "and its rooms");
    ok(mf_rundir_open(&b, "deep/down/run", "point", false, false, &err) == MF_EIO && strstr(err.text, "going on"),
       "a second run there is refused");
    ok(mf_rundir_is_live("deep/down/run"), "it is live while it is locked");
    ok(!mf_runs_newest("deep/down/run", path), "no checkpoint yet");
    for (long long v = 1; v <= 25; v++)
        checkpoint("deep/down/run", v, 10);
    ok(mf_runs_newest("deep/down/run", path) && strstr(path, "000025.safetensors"), "the newest by number");
    checkpoint("deep/down/run", 26, 9);
    ok(mf_runs_newest("deep/down/run", path) && strstr(path, "000025.safetensors"), "one that is cut is passed over");
    unlink("deep/down/run/checkpoints/000026.safetensors");
    mf_rundir_prune("deep/down/run", 25, 3, 10);
    int left = 0;
    for (long long v = 1; v <= 25; v++) {
        mf_runs_version("deep/down/run", v, path);
        left += access(path, F_OK) == 0;
    }
    ok(left == 5, "pruned to 10, 20, 23, 24, 25");
    mf_rundir_close(&a);
    ok(!mf_rundir_is_live("deep/down/run"), "closed, it is not");
    ok(mf_rundir_open(&a, "deep/down/run", "point", false, false, &err) == MF_EUSAGE && strstr(err.text, "run.resume"),
       "a used folder is refused, with advice");
    ok(mf_rundir_open(&a, "deep/down/run", "point", true, false, &err) == 0 && mf_runs_newest(a.path, path),
       "unless the run resumes");
    mf_rundir_close(&a);
    ok(mf_rundir_open(&a, "deep/down/run", "point", false, true, &err) == 0 && !mf_runs_newest(a.path, path),
       "or is forced: then the old checkpoints go");
    mf_rundir_close(&a);
    ok(mf_rundir_open(&a, NULL, "lift", false, false, &err) == 0 && !strncmp(a.path, "outputs/lift/", 13),
       "by default it is outputs/TASK/DATE-TIME");
    ok(lstat("outputs/lift/latest", &st) < 0, "without a link latest, as long as it has learned nothing");
    mf_rundir_begun(&a);
    ok(stat("outputs/lift/latest/checkpoints", &st) == 0, "and then with it");
    ok(mf_rundir_open(&b, NULL, "lift", false, false, &err) == 0 && strcmp(a.path, b.path), "two in a second differ");
    ok(readlink("outputs/lift/latest", path, sizeof path) == (ssize_t)strlen(strrchr(a.path, '/') + 1) &&
           !strncmp(path, strrchr(a.path, '/') + 1, strlen(strrchr(a.path, '/') + 1)),
       "and the second one's start does not move it");
    mf_rundir_close(&a);
    mf_rundir_close(&b);
    snprintf(path, sizeof path, "rm -rf %s", where);
    return system(path) || done();
}
