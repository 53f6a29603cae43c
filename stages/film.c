/* mf-film: makes a video of the policy every film.every iterations of training.
 *
 * The learner never waits for it: mf-eval plays the trials in a process of its own, at the lowest priority, one at a
 * time, with this program's words. The results are videos/NNNNNN.gif, and a video frame in the stream of metrics, for
 * mf-log.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "stage/rundir.h"
#include "stage/stage.h"

extern char **environ;

struct film {
    int64_t every, trials, save_every;

    char run[MF_PATH_MAX];
    pid_t maker; /* mf-eval; 0: none */
    int64_t iter, step;
    char policy[MF_PATH_MAX]; /* a private link to the checkpoint, which may be pruned meanwhile */
    bool given_up;
};

static const struct mf_bind binds[] = {
    {"film.every", offsetof(struct film, every)},
    {"film.trials", offsetof(struct film, trials)},
    {"training.save_every", offsetof(struct film, save_every)},
    {0},
};

/* ---- the maker ---- */

static int spawn(struct film *m, const char *const *word, int n)
{
    char video[32], episodes[40], log[MF_PATH_MAX];
    const char *const before[] = {"nice", "-n", "19", "mf-eval"};
    const char *const after[] = {m->policy,
                                 video,
                                 episodes,
                                 "eval.video_format=gif",
                                 "eval.num_inference_steps=0",
                                 "eval.json=null",
                                 "eval.results=null",
                                 "eval.compare=false",
                                 "threads=1",
                                 "--out",
                                 "/dev/null"};
    const size_t n_before = sizeof before / sizeof *before, n_after = sizeof after / sizeof *after;
    const char **argv = mf_xcalloc(n_before + (size_t)n + n_after + 1, sizeof *argv);
    snprintf(video, sizeof video, "eval.video=%lld", (long long)m->trials);
    snprintf(episodes, sizeof episodes, "eval.num_episodes=%lld", (long long)m->trials);
    snprintf(log, sizeof log, "%.900s/logs/mf-eval.log", m->run);
    memcpy(argv, before, sizeof before);
    memcpy(argv + n_before, word, (size_t)n * sizeof *word);
    memcpy(argv + n_before + n, after, sizeof after);
    posix_spawn_file_actions_t act;
    posix_spawn_file_actions_init(&act);
    posix_spawn_file_actions_addopen(&act, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&act, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&act, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const int rc = posix_spawnp(&m->maker, *argv, &act, NULL, (char **)argv, environ);
    posix_spawn_file_actions_destroy(&act);
    free(argv);
    return rc;
}

/* Films the checkpoint made after this iteration. */
static void start(const struct mf_run *run, struct film *m, int64_t iter, int64_t step)
{
    char made[MF_PATH_MAX];
    int n;
    const char *const *word = mf_run_said(run, &n);
    mf_runs_version(m->run, iter + 1, made);
    snprintf(m->policy, sizeof m->policy, "%s%.900s/videos/%06lld.safetensors", *m->run == '/' ? "" : "./", m->run,
             (long long)iter + 1); /* a=b/videos would be a key */
    unlink(m->policy);
    m->iter = iter;
    m->step = step;
    if (link(made, m->policy) < 0) {
        mf_log(MF_LOG_WARN, "no video of iteration %lld: link %s: %s", (long long)iter + 1, made, strerror(errno));
    } else if ((errno = spawn(m, word, n))) {
        m->maker = 0;
        unlink(m->policy);
        mf_log(MF_LOG_WARN, "no video of iteration %lld: nice mf-eval: %s", (long long)iter + 1, strerror(errno));
    }
}

/* The maker has ended. A usage error would occur again, so it disables further videos. */
static int finish(struct mf_run *run, struct film *m, int status, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    snprintf(path, sizeof path, "%.900s/videos/%06lld.gif", m->run, (long long)m->iter + 1);
    m->maker = 0;
    unlink(m->policy);
    if (status || access(path, F_OK) < 0) {
        m->given_up = WIFEXITED(status) && WEXITSTATUS(status) == 2;
        mf_log(MF_LOG_WARN, "no video of iteration %lld%s: see %s/logs/mf-eval.log", (long long)m->iter + 1,
               m->given_up ? ", nor of any later one" : "", m->run);
        return 0;
    }
    struct mf_frame *f = mf_frame_new(MF_VIDEO);
    mf_frame_set_int(f, "iter", m->iter);
    mf_frame_set_int(f, "step", m->step);
    mf_frame_set_str(f, "path", path);
    int rc = mf_emit(run, f, err);
    mf_frame_free(f);
    return rc;
}

static int look(struct mf_run *run, struct film *m, struct mf_err *err)
{
    int status;
    return m->maker && waitpid(m->maker, &status, WNOHANG) == m->maker ? finish(run, m, status, err) : 0;
}

static void stop(struct film *m)
{
    if (!m->maker)
        return;
    kill(m->maker, SIGTERM);
    while (waitpid(m->maker, NULL, 0) < 0 && errno == EINTR)
        ;
    unlink(m->policy);
    m->maker = 0;
}

/* ---- the stage ---- */

/* Is this the first saved version in an interval? */
static bool is_due(const struct film *m, int64_t version)
{
    const int64_t interval = m->every > m->save_every ? m->every : m->save_every;
    return m->every && version % m->save_every == 0 && version % interval < m->save_every;
}

static int take_metrics(struct mf_run *run, struct film *m, const struct mf_frame *f, struct mf_err *err)
{
    int64_t iter, step;
    int rc;
    if ((rc = mf_frame_get_int(f, "iter", &iter, err)) || (rc = mf_frame_get_int(f, "step", &step, err)) ||
        !is_due(m, iter + 1) || m->given_up || !*m->run)
        return rc;
    if (m->maker)
        mf_log(MF_LOG_INFO, "no video of iteration %lld: that of %lld is still being made", (long long)iter + 1,
               (long long)m->iter + 1);
    else
        start(run, m, iter, step);
    return 0;
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct film *m = self;
    int rc;
    snprintf(m->run, sizeof m->run, "%.900s", mf_run_folder(run)); /* only a run in progress gets videos */
    if ((rc = mf_emit(run, f, err)) || (rc = look(run, m, err)))
        return rc;
    return mf_frame_kind(f) == MF_METRICS ? take_metrics(run, m, f, err) : 0;
}

/* Waits for the last video, which is short. */
static int ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    struct film *m = self;
    int rc = 0;
    (void)end;
    while (m->maker && rc == 0 && (rc = mf_stop_check(err)) == 0 && (rc = look(run, m, err)) == 0 && m->maker)
        usleep(1000 * MF_STOP_TICK / 2);
    return rc;
}

static int close_film(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run, (void)rc, (void)err;
    stop(self);
    return 0;
}

static const struct mf_stage stage = {
    .name = "film",
    .summary = "Make a video of the policy every film.every iterations, beside the run, and pass the metrics on.",
    .examples = "  mf-collect env=lift | mf-gae | mf-ppo | mf-film film.every=20 | mf-log > /dev/null\n",
    .role = MF_FILTER,
    .watched = true,
    .metrics = true,
    .binds = binds,
    .size = sizeof(struct film),
    .frame = frame,
    .ended = ended,
    .close = close_film,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
