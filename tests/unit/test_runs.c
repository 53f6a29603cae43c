/* The meaning of a path: a checkpoint, a run, the latest run of a folder, or no run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/runs.h"
#include "tap.h"

static struct mf_err err;

/* The first `bytes` of the smallest safetensors file there is. */
static void checkpoint(const char *path, size_t bytes)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite("\2\0\0\0\0\0\0\0{}", 1, bytes, f) != bytes || fclose(f))
        abort();
}

static void folders(const char *command)
{
    if (system(command))
        abort();
}

static bool means(const char *path, const char *want)
{
    char file[MF_PATH_MAX] = "";
    return mf_runs_checkpoint(path, file, &err) == 0 && !strcmp(file, want);
}

static bool refuses(const char *path, int code, const char *why)
{
    char file[MF_PATH_MAX];
    return mf_runs_checkpoint(path, file, &err) == code && strstr(err.text, why);
}

static void count(const char *file, void *n)
{
    (void)file;
    ++*(int *)n;
}

static void runs(void)
{
    struct mf_at at;
    int n = 0;
    folders("mkdir -p o/ppo/checkpoints o/clone/checkpoints o/young/logs o/empty && touch o/young/logs/metrics.mf");
    ok(refuses("o/ppo", MF_EUSAGE, "the run o/ppo has no checkpoint yet"), "%s", err.text);
    ok(refuses("o/young", MF_EUSAGE, "the run o/young has no checkpoint yet"), "metrics alone make a run");
    ok(refuses("o/empty", MF_EUSAGE, "o/empty is not a run's folder"), "%s", err.text);
    ok(refuses("o/none", MF_EIO, "cannot open o/none: No such file"), "%s", err.text);
    checkpoint("o/clone/checkpoints/clone.safetensors", 10);
    ok(means("o/clone", "o/clone/checkpoints/clone.safetensors"), "a cloning run means its clone");
    checkpoint("o/clone/checkpoints/copy.safetensors", 10);
    ok(means("o/clone", "o/clone/checkpoints/clone.safetensors"), "also beside others");
    checkpoint("o/ppo/checkpoints/000009.safetensors", 10);
    checkpoint("o/ppo/checkpoints/000010.safetensors", 10);
    checkpoint("o/ppo/checkpoints/clone.safetensors", 10);
    ok(means("o/ppo", "o/ppo/checkpoints/000010.safetensors") &&
           means("o/ppo/checkpoints", "o/ppo/checkpoints/000010.safetensors") &&
           means("o/ppo/checkpoints/000009.safetensors", "o/ppo/checkpoints/000009.safetensors"),
       "a run, and its checkpoints/, mean the newest by number; a file itself");
    checkpoint("o/ppo/checkpoints/000011.safetensors", 9);
    ok(means("o/ppo", "o/ppo/checkpoints/000010.safetensors"), "but not one that is cut");
    folders(
        "ln -s 000009.safetensors o/ppo/checkpoints/best.safetensors; touch o/ppo/checkpoints/notes.safetensors.txt");
    ok(mf_runs_files("o/ppo", count, &n, &err) == 0 && n == 4, "files are distinguished from links and notes");
    ok(mf_runs_at(&at, "o/ppo", &err) == 0 && at.kind == MF_AT_RUN && !at.shelf, "it is a run");
    ok(mf_runs_at(&at, "o/ppo/checkpoints", &err) == 0 && at.kind == MF_AT_FOLDER, "its checkpoints/ is none");
    ok(mf_runs_at(&at, "o/young/logs/metrics.mf", &err) == 0 && at.kind == MF_AT_FILE, "nor is a file");
}

static void shelves(void)
{
    struct mf_at at;
    ok(refuses("o", MF_EUSAGE, "o is not a run and has no link 'latest' to one; name one of the runs in it: ") &&
           strstr(err.text, "clone") && strstr(err.text, "ppo") && strstr(err.text, "young") &&
           !strstr(err.text, "empty"),
       "%s", err.text);
    folders("ln -s ppo o/latest");
    ok(means("o", "o/ppo/checkpoints/000010.safetensors") && means("o/", "o//ppo/checkpoints/000010.safetensors"),
       "a shelf means its latest run, by that run's own name");
    ok(mf_runs_at(&at, "o", &err) == 0 && at.kind == MF_AT_RUN && at.shelf && !strcmp(at.path, "o/ppo"), "which it is");
    folders("ln -sfn empty o/latest");
    ok(refuses("o", MF_EUSAGE, "o is not a run and has no link 'latest' to one"), "a link to no run leads nowhere");
    folders("ln -sfn gone o/latest");
    ok(refuses("o", MF_EIO, "cannot open o/latest: No such file"), "%s", err.text);
    folders("mkdir o/checkpoints && ln -sfn ppo o/latest");
    ok(refuses("o", MF_EUSAGE, "the run o has no checkpoint yet"), "a run is a run, whatever lies in it");
}

static void others(void)
{
    char path[MF_PATH_MAX + 300];
    folders("mkdir mine");
    checkpoint("mine/hopper.safetensors", 10);
    ok(means("mine", "mine/hopper.safetensors"), "the only checkpoint of a folder");
    checkpoint("mine/walker.safetensors", 10);
    ok(refuses("mine", MF_EUSAGE, "mine holds 2 checkpoints and none has a number"), "%s", err.text);
    for (size_t i = 0; i + 1 < sizeof path; i += 2)
        memcpy(path + i, "./", 2);
    memcpy(path + sizeof path - 6, "/mine", 6);
    ok(refuses(path, MF_EUSAGE, "the path is too long"), "%s", err.text);
}

static bool video_is(const char *checkpoint_path, const char *ending, const char *want)
{
    char path[64];
    mf_runs_video(checkpoint_path, ending, path, sizeof path);
    return !strcmp(path, want);
}

static void videos(void)
{
    ok(video_is("a/run/checkpoints/000100.safetensors", ".mp4", "a/run/videos/000100.mp4") &&
           video_is("checkpoints/000100.safetensors", "-steps4.gif", "videos/000100-steps4.gif"),
       "the video of a run's checkpoint goes to its videos");
    ok(video_is("some/where/else/it.safetensors", ".mp4", "some/where/else/it.mp4") && video_is("it", ".mp4", "it.mp4"),
       "of another one, beside it");
}

int main(void)
{
    char where[] = "/tmp/mf-runs-XXXXXX", command[64];
    if (!mkdtemp(where) || chdir(where))
        return 1;
    runs();
    shelves();
    others();
    videos();
    snprintf(command, sizeof command, "rm -rf %s", where);
    return system(command) || done();
}
