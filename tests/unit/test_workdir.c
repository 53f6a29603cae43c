/* Where a learner writes: beside the collectors while their run is going on, else in a folder of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stream/frame.h"
#include "stage/workdir.h"
#include "tap.h"

static struct mf_err err;
static struct mf_frame *head;

static int open_it(struct mf_workdir *w, const char *dir, bool serves)
{
    return mf_workdir_open(w, head, &(struct mf_rundir_opts){.dir = dir}, false, serves, &err);
}

/* The head's run is going on. */
static void live(void)
{
    struct mf_workdir a, b;
    ok(open_it(&a, NULL, false) == 0 && a.live && !a.own && !strcmp(a.path, "outputs/point/run"),
       "while the stream's run is going on, the learner writes there");
    ok(open_it(&b, "other", false) == MF_EIO && strstr(err.text, "already has a learner"),
       "a second learner is refused");
    mf_workdir_close(&b);
    mf_workdir_close(&a);
    ok(open_it(&a, "outputs/point/run", false) == 0 && a.live && !a.own, "named by run.dir it is the same");
    mf_workdir_close(&a);
    ok(symlink("run", "outputs/point/latest") == 0 && open_it(&a, "outputs/point/latest", false) == 0 && !a.own &&
           !strcmp(a.path, "outputs/point/run"),
       "also by a link to it");
    mf_workdir_close(&a);
    ok(open_it(&a, "mine", false) == 0 && a.live && a.own && !strcmp(a.path, "mine") && mf_rundir_is_live("mine"),
       "another run.dir is made and locked, and the run has its learner all the same");
    ok(open_it(&b, "other", false) == MF_EIO, "so that there is no second one");
    mf_workdir_close(&b);
    mf_workdir_close(&a);
    ok(mf_workdir_open(&b, head, &(struct mf_rundir_opts){0}, true, false, &err) == 0 && !b.live && b.own &&
           !strncmp(b.path, "outputs/offline/", 16),
       "a stream out of a file has a folder of its own, also while that run is in progress");
    mf_workdir_close(&b);
    ok(!mf_rundir_is_live("mine") && open_it(&a, NULL, false) == 0, "closing gives up both");
    mf_workdir_close(&a);
}

/* Names from a stream are names. */
static void climbing(void)
{
    struct mf_workdir a;
    mf_frame_set_str(head, "spec.env", "../../up");
    ok(open_it(&a, NULL, true) == 0 && !strncmp(a.path, "outputs/_._.._up/2", 18) && access("../up", F_OK) < 0,
       "an environment called ../../up has its runs below outputs/: %s", a.path);
    mf_workdir_close(&a);
}

/* It is over. */
static void saved(void)
{
    struct mf_workdir a, b;
    ok(open_it(&a, NULL, false) == 0 && !a.live && a.own && !strncmp(a.path, "outputs/offline/", 16),
       "of a run that is over, it is a new folder");
    ok(open_it(&b, NULL, true) == 0 && b.own && !strncmp(b.path, "outputs/point/", 14),
       "named after the environment where collectors are to come to it");
    mf_workdir_close(&a);
    mf_workdir_close(&b);
}

/* Does it start from this checkpoint, as a resume or not? */
static bool starts(const struct mf_workdir *w, bool resume, const char *checkpoint, const char *from, bool resumes)
{
    struct mf_start s;
    if (mf_workdir_start(w, head, resume, checkpoint, &s, &err))
        return false;
    return s.resumes == resumes && (from ? s.from && strstr(s.from, from) : !s.from);
}

/* The smallest safetensors file there is. */
static void checkpoint(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, f) != 10 || fclose(f))
        abort();
}

static void starting(const char *run)
{
    struct mf_workdir w;
    char path[MF_PATH_MAX];
    checkpoint("theirs");
    if (mkdir("mine", 0777) || mkdir("mine/checkpoints", 0777)) /* closing left no folder, as nothing was in it */
        abort();
    checkpoint("mine/checkpoints/clone.safetensors");
    open_it(&w, NULL, false);
    ok(starts(&w, false, NULL, NULL, false) && starts(&w, true, NULL, NULL, false), "with no checkpoint it is fresh");
    ok(starts(&w, false, "mine", "mine/checkpoints/clone.safetensors", false), "one that is named is the start: a run");
    mf_frame_set_str(head, "checkpoint", "theirs");
    ok(starts(&w, false, NULL, "theirs", false) && starts(&w, false, "mine", "mine", false), "else the collector's");
    ok(mf_workdir_start(&w, head, false, "nowhere", &(struct mf_start){0}, &err) == MF_EIO &&
           strstr(err.text, "cannot open nowhere: No such file"),
       "%s", err.text);
    mf_runs_version(run, 4, path);
    checkpoint(path);
    ok(starts(&w, true, "mine", "checkpoints/000004", true), "run.resume resumes from the folder's newest");
    ok(starts(&w, false, "mine", "mine", false), "and nothing else does");
    mf_frame_set_int(head, "iter", 4);
    ok(starts(&w, false, "mine", "checkpoints/000004", true), "but a collector that resumes that run does");
    mf_workdir_close(&w);
    open_it(&w, "mine", false);
    ok(starts(&w, false, NULL, "theirs", false), "a program with another folder does not resume there");
    mf_workdir_close(&w);
    static const char *const killed[] = {"own/checkpoints/7.json.part", "outputs/point/run/checkpoints/7.json.part"};
    if (mkdir("own", 0777) || mkdir("own/checkpoints", 0777))
        abort();
    for (int own = 1; own >= 0; own--) {
        fclose(fopen(killed[!own], "w"));
        open_it(&w, own ? "own" : NULL, false);
        ok(access(killed[!own], F_OK) < 0, "what a killed learner left incomplete goes, in %s folder",
           own ? "its own" : "the collector's");
        mf_workdir_close(&w);
    }
}

int main(void)
{
    char where[] = "/tmp/mf-workdir-XXXXXX", command[64];
    struct mf_rundir run;
    if (!mkdtemp(where) || chdir(where) ||
        mf_rundir_open(&run, &(struct mf_rundir_opts){.dir = "outputs/point/run"}, &err))
        return 1;
    head = mf_frame_new(MF_HEAD);
    mf_frame_set_str(head, "run", run.path);
    mf_frame_set_str(head, "spec.env", "point");
    live();
    starting(run.path);
    mf_rundir_close(&run);
    saved();
    climbing();
    mf_frame_free(head);
    snprintf(command, sizeof command, "rm -rf %s", where);
    return system(command) || done();
}
