/* The frame of every program, seen from outside: this test starts itself again as small programs. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stage/stage.h"
#include "tap.h"

/* ---- the programs ---- */

struct ticker {
    int64_t left;      /* clone.steps: frames to make; of 0 there is no end */
    int64_t slow;      /* clone.warmup_steps: ms for each */
    const char *fails; /* run.dir: open, work, close */
    bool endless;
};

static const struct mf_bind binds[] = {
    {"clone.steps", offsetof(struct ticker, left)},
    {"clone.warmup_steps", offsetof(struct ticker, slow)},
    {"run.dir", offsetof(struct ticker, fails)},
    {0},
};

static int failing(const struct ticker *t, const char *where, struct mf_err *err)
{
    return t->fails && !strcmp(t->fails, where) ? mf_err_set(err, MF_EDEVICE, "%s fails", where) : 0;
}

static int emit_head(struct mf_run *run, struct mf_err *err)
{
    struct mf_frame *f = mf_frame_new(MF_HEAD);
    mf_frame_set_int(f, "v", 1);
    mf_frame_set_str(f, "src", "here");
    int rc = mf_emit(run, f, err);
    mf_frame_free(f);
    return rc;
}

static int ticker_open(struct mf_run *run, void *self, struct mf_err *err)
{
    struct ticker *t = self;
    t->endless = t->left == 0;
    int rc = failing(t, "open", err);
    return rc ? rc : emit_head(run, err);
}

static int ticker_work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct ticker *t = self;
    void *data;
    if (!t->endless && t->left-- == 0)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = t->slow * 1000000}, NULL);
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    int rc = failing(t, "work", err);
    if (rc == 0)
        rc = mf_frame_add(f, "rewards", MF_F32, 3, (size_t[]){2, 3, 1}, &data, err);
    if (rc == 0)
        rc = mf_emit(run, f, err);
    mf_frame_free(f);
    return rc ? rc : 1;
}

static int ticker_close(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run;
    mf_log(MF_LOG_INFO, "closed rc=%d %s", rc, rc ? err->text : "");
    return failing(self, "close", err);
}

static const struct mf_stage ticker = {.name = "ticker",
                                       .summary = "Makes rollouts.",
                                       .role = MF_SOURCE,
                                       .binds = binds,
                                       .size = sizeof(struct ticker),
                                       .open = ticker_open,
                                       .work = ticker_work,
                                       .close = ticker_close};

static int teller_open(struct mf_run *run, void *self, struct mf_err *err)
{
    (void)self, (void)err;
    int n;
    const char *const *words = mf_run_operands(run, &n);
    for (int i = 0; i < n; i++)
        printf("%s %s\n", words[i], mf_conf_text(mf_run_conf(run), "env.name"));
    return 0;
}

static const struct mf_stage teller = {.name = "teller",
                                       .summary = "Prints its operands.",
                                       .operands = "WORD...",
                                       .role = MF_TOOL,
                                       .text_out = true,
                                       .open = teller_open};

static int drain(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    (void)self;
    return mf_frame_kind(f) == MF_HEAD ? mf_emit(run, f, err) : 0;
}

static const struct mf_stage drainer = {
    .name = "drainer", .summary = "Emits the head alone.", .role = MF_SINK, .frame = drain};

/* ---- starting them ---- */

static char out[] = "/tmp/mf-stage-out-XXXXXX", errors[] = "/tmp/mf-stage-err-XXXXXX";

/* Runs one; words end with NULL; sig is sent after 200 ms. Returns the status that a shell reports. */
static int run(const char *program, int sig, const char *const *words)
{
    char *argv[16] = {(char *)(uintptr_t)program};
    for (int i = 0; words[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    pid_t pid = fork();
    if (pid == 0) {
        setenv("MF_TEST_PROGRAM", program, 1);
        dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    int status;
    if (sig) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        kill(pid, sig);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const char *text_of(const char *path)
{
    static char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

/* The content of `out`: frames, whether the last is an end, and its fields. */
struct seen {
    int frames;
    bool ended, stopped;
    int64_t said, samples;
    char src[16];
};

static struct seen look(void)
{
    struct seen s = {0};
    struct mf_port *port;
    struct mf_frame *f;
    struct mf_err err;
    if (mf_port_open(&port, out, MF_IN, NULL, &err))
        return s;
    for (; mf_frame_recv(port, NULL, &f, &err) == 1; s.frames++, mf_frame_free(f)) {
        const char *src;
        s.ended = mf_frame_kind(f) == MF_END;
        if (s.ended && !mf_frame_get_int(f, "frames", &s.said, &err) &&
            !mf_frame_get_int(f, "samples", &s.samples, &err) && !mf_frame_get_bool(f, "stopped", &s.stopped, &err) &&
            !mf_frame_get_str(f, "src", &src, &err))
            snprintf(s.src, sizeof s.src, "%s", src);
    }
    mf_port_drop(port);
    return s;
}

#define WORDS(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

static void sources(void)
{
    int rc = run("ticker", 0, WORDS("clone.steps=3", "clone.warmup_steps=0"));
    struct seen s = look();
    ok(rc == 0 && s.frames == 5 && s.ended && !s.stopped, "a source ends by itself");
    ok(s.said == 4 && s.samples == 18 && !strcmp(s.src, "here"), "its end counts frames and samples, and has its name");

    rc = run("ticker", SIGINT, WORDS("clone.steps=0", "clone.warmup_steps=20"));
    s = look();
    ok(rc == 130 && s.ended && s.stopped && s.said == s.frames - 1, "INT: an end with stopped, then dead by INT");
    ok(strstr(text_of(errors), "closed rc=0") != NULL, "it was closed as after a good run");

    rc = run("ticker", SIGTERM, WORDS("clone.steps=0", "clone.warmup_steps=20"));
    s = look();
    ok(rc == 143 && s.frames > 1 && !s.ended, "TERM: no end, dead by TERM");
    ok(strstr(text_of(errors), "closed rc=-8") != NULL, "it was closed all the same");

    rc = run("ticker", 0, WORDS("clone.steps=3", "run.dir=work"));
    ok(rc == 1 && !look().ended && strstr(text_of(errors), "closed rc=-5 work fails") &&
           strstr(text_of(errors), "mf-ticker: error: work fails"),
       "an error: closed, reported, exit 1, no end");
    rc = run("ticker", 0, WORDS("run.dir=open"));
    ok(rc == 1 && look().frames == 0 && strstr(text_of(errors), "closed rc=-5"), "an error in open is closed too");
    rc = run("ticker", 0, WORDS("clone.steps=1", "run.dir=close", "clone.warmup_steps=0"));
    ok(rc == 1 && !look().ended && strstr(text_of(errors), "error: close fails"), "an error in close leaves no end");
    rc = run("ticker", SIGTERM, WORDS("clone.steps=0", "run.dir=close"));
    ok(rc == 1 && strstr(text_of(errors), "error: close fails"), "nor is it hidden by a signal");

    rc = run("ticker", 0, WORDS("clone.steps=3", "log.level=error", "clone.warmup_steps=0"));
    ok(rc == 0 && !*text_of(errors), "log.level=error is silent");
    ok(run("ticker", 0, WORDS("--in", "x")) == 2, "a source has no --in");
    ok(run("ticker", 0, WORDS("stray")) == 2, "a word that is no key=value is refused");
}

static void others(void)
{
    int rc = run("teller", 0, WORDS("ls", "./a=b", "env=lift"));
    ok(rc == 0 && !strcmp(text_of(out), "ls lift\n./a=b lift\n"), "a tool has operands, also with a '=' in a path");
    ok(run("teller", 0, WORDS("--out", "x")) == 2, "text has no --out");

    char stream[] = "/tmp/mf-stage-in-XXXXXX";
    close(mkstemp(stream));
    run("ticker", 0, WORDS("clone.steps=2", "clone.warmup_steps=0", "--out", stream));
    rc = run("drainer", 0, WORDS("--in", stream));
    struct seen s = look();
    ok(rc == 0 && s.frames == 2 && s.ended && s.said == 1 && s.samples == 0, "a sink's end counts what it emitted");
    unlink(stream);
}

int main(int argc, char **argv)
{
    const char *program = getenv("MF_TEST_PROGRAM");
    const struct mf_stage *const all[] = {&ticker, &teller, &drainer};
    for (int i = 0; program && i < 3; i++)
        if (!strcmp(program, all[i]->name))
            return mf_stage_main(all[i], argc, argv);
    close(mkstemp(out));
    close(mkstemp(errors));
    sources();
    others();
    unlink(out);
    unlink(errors);
    return done();
}
