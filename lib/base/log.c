#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain.h"

enum { RARELY_FIRST = 5 };
static const double rarely_every = 10; /* s */

static char prog[64] = "mf";
static enum mf_level threshold = MF_LOG_INFO;
static int tee_fd = -1;
static bool drawn; /* a progress line is on the screen */

static struct { /* lines kept until there is a log file */
    pthread_mutex_t lock;
    size_t n;
    char text[8192];
} before = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mf_log_open(const char *name, enum mf_level level)
{
    const char *tag = getenv("MF_TAG");
    if (tag && *tag)
        snprintf(prog, sizeof prog, "%s[%s]", name, tag);
    else
        snprintf(prog, sizeof prog, "%s", name);
    threshold = level;
}

static void put(int fd, const char *text, size_t n)
{
    if (write(fd, text, n) < 0)
        return; /* no place left to report it */
}

void mf_log_tee(int fd)
{
    pthread_mutex_lock(&before.lock);
    tee_fd = fd;
    if (fd >= 0)
        put(fd, before.text, before.n);
    before.n = 0;
    pthread_mutex_unlock(&before.lock);
}

static void put_tee(const char *line, size_t n)
{
    pthread_mutex_lock(&before.lock);
    if (tee_fd >= 0) {
        put(tee_fd, line, n);
    } else if (n <= sizeof before.text - before.n) {
        memcpy(before.text + before.n, line, n);
        before.n += n;
    }
    pthread_mutex_unlock(&before.lock);
}

void mf_log(enum mf_level level, const char *fmt, ...)
{
    static const char *const word[] = {"error", "warn", "info", "debug"};
    if (level > threshold)
        return;
    char line[1024];
    int head = drawn ? snprintf(line, sizeof line, "\r\033[K") : 0;
    int n = head + snprintf(line + head, sizeof line - (size_t)head, "%s: %s: ", prog, word[level]);
    va_list ap;
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if ((size_t)n > sizeof line - 2)
        n = (int)sizeof line - 2;
    n = head +
        (int)mf_plain_copy(line + head, line + head, (size_t)(n - head)); /* names may come from untrusted files */
    line[n++] = '\n';
    drawn = false;
    put(STDERR_FILENO, line, (size_t)n);
    put_tee(line + head, (size_t)(n - head));
}

void mf_log_rarely(struct mf_rarely *r, enum mf_level level, const char *fmt, ...)
{
    char text[900], more[48] = "";
    va_list ap;
    if (r->logged >= RARELY_FIRST && mf_now() - r->last < rarely_every) {
        r->left_out++;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->left_out)
        snprintf(more, sizeof more, " (and %d times more before)", r->left_out);
    mf_log(level, "%s%s", text, more);
    *r = (struct mf_rarely){.last = mf_now(), .logged = r->logged < RARELY_FIRST ? r->logged + 1 : RARELY_FIRST};
}

bool mf_log_is_live(void)
{
    struct stat out;
    bool piped = fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode);
    return !piped && isatty(STDERR_FILENO);
}

bool mf_log_is_due(double *last)
{
    const double now = mf_now();
    if (isatty(STDERR_FILENO) || now - *last < rarely_every)
        return false;
    *last = now;
    return true;
}

void mf_log_live(const char *fmt, ...)
{
    if (!mf_log_is_live())
        return;
    char line[512];
    int n = snprintf(line, sizeof line, "\r\033[K");
    va_list ap;
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    if ((size_t)n >= sizeof line)
        n = (int)sizeof line - 1;
    n = 4 + (int)mf_plain_copy(line + 4, line + 4, (size_t)n - 4);
    struct winsize w; /* a line that wraps could not be replaced */
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 && n > 4 + w.ws_col - 1)
        n = 4 + w.ws_col - 1;
    drawn = n > 4;
    put(STDERR_FILENO, line, (size_t)n);
}

void mf_log_warn(const char *text)
{
    mf_log(MF_LOG_WARN, "%s", text);
}
