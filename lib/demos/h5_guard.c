/* Faults inside the HDF5 library: a crash, an endless loop, a failed system call that it ignores.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/stop.h"
#include "demos/h5.h"

/* A call may take CALL_SECONDS of processor time, more where the file has more to read, MOST_SECONDS at most. */
enum { TICK_US = 250000, CALL_SECONDS = 5, BYTES_PER_SECOND = 50 << 20, MOST_SECONDS = 60, GRACE_TICKS = 12 };

static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
static struct sigaction before[sizeof deaths / sizeof *deaths], before_tick;
static char crashed[600], looped[600]; /* the sentences, formatted before a handler needs them */
static struct timespec alive;          /* processor time when a call last returned */
static int ticks_after_stop;
static time_t call_seconds;
static char failure[400]; /* the first failed system call within HDF5; "": none */

/* ---- calls that fail ---- */

static herr_t keep_system(unsigned n, const H5E_error2_t *e, void *text)
{
    static const char begin[] = "error message = '";
    const char *system = e->desc ? strstr(e->desc, begin) : NULL;
    (void)n;
    if (system)
        snprintf(text, sizeof failure, "%.*s", (int)strcspn(system + sizeof begin - 1, "'"), system + sizeof begin - 1);
    return 0;
}

/* HDF5 calls it for every function that fails, also where failure is an expected result. */
static herr_t failed(hid_t stack, void *unused)
{
    (void)unused;
    if (!*failure)
        H5Ewalk2(stack, H5E_WALK_DOWNWARD, keep_system, failure);
    return 0;
}

void mf_h5_quiet(void)
{
    H5dont_atexit(); /* after a full disk the handler would try, and complain, again */
    H5Eset_auto2(H5E_DEFAULT, failed, NULL);
}

int mf_h5_failed(struct mf_err *err)
{
    char why[sizeof failure];
    if (!*failure)
        return 0;
    strcpy(why, failure);
    *failure = '\0';
    return mf_err_set(err, MF_EIO, "%s", why);
}

/* ---- calls that do not return ---- */

static void end_with(const char *words)
{
    ssize_t ignored = write(STDERR_FILENO, words, strlen(words));
    (void)ignored;
    _exit(3);
}

static void died(int signal)
{
    (void)signal;
    end_with(crashed);
}

static void tick(int unused)
{
    struct timespec now;
    const int signal = mf_stop_signal(), error = errno;
    (void)unused;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    if (now.tv_sec - alive.tv_sec > call_seconds)
        end_with(looped);
    if (signal && ++ticks_after_stop > GRACE_TICKS) { /* no other code will handle it */
        struct sigaction die = {.sa_handler = SIG_DFL};
        sigset_t open;
        sigemptyset(&open);
        sigaddset(&open, signal);
        sigaction(signal, &die, NULL);
        raise(signal);
        sigprocmask(SIG_UNBLOCK, &open, NULL);
    }
    errno = error;
}

void mf_h5_alive(void)
{
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &alive);
    ticks_after_stop = 0;
}

static void set_words(char words[600], const char *path, const char *what)
{
    snprintf(words, 600, "%s: error: '%.400s' %s: copy or download it again\n", program_invocation_short_name, path,
             what);
}

static void set_timer(long us)
{
    const struct itimerval every = {.it_interval = {.tv_usec = us}, .it_value = {.tv_usec = us}};
    setitimer(ITIMER_REAL, &every, NULL);
}

void mf_h5_guard(const char *path)
{
    struct sigaction to = {.sa_handler = died}, on_tick = {.sa_handler = tick, .sa_flags = SA_RESTART};
    set_words(crashed, path, "has damaged headers that the HDF5 library cannot read");
    set_words(looped, path, "keeps the HDF5 library busy for ever in one call, so its headers are damaged");
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        sigaction(deaths[i], &to, &before[i]);
    sigaction(SIGALRM, &on_tick, &before_tick);
    struct stat st;
    call_seconds = CALL_SECONDS + (stat(path, &st) == 0 ? st.st_size / BYTES_PER_SECOND : 0);
    call_seconds = call_seconds < MOST_SECONDS ? call_seconds : MOST_SECONDS;
    *failure = '\0';
    mf_h5_alive();
    set_timer(TICK_US);
}

int mf_h5_unguard(int rc, const char *path, struct mf_err *err)
{
    set_timer(0);
    sigaction(SIGALRM, &before_tick, NULL);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        sigaction(deaths[i], &before[i], NULL);
    struct mf_err seen;
    return mf_h5_failed(&seen) && rc >= 0 ? mf_err_set(err, MF_EIO, "'%s': %.400s", path, seen.text) : rc;
}
