#include "base/stop.h"

#include <signal.h>

#include "base/clock.h"

static const double TWICE = .1; /* s */

static volatile sig_atomic_t asked;
static bool hold, defer;
static int shown;    /* of what was caught while held */
static double first; /* time of the first signal; s */

/* Two signals within TWICE are one request: a terminal or a job scheduler signals every program, and a script forwards
 * the same signal. */
static void on_signal(int sig)
{
    const double now = mf_now();
    if (asked && now - first > TWICE) {
        signal(sig, SIG_DFL);
        raise(sig); /* when the handler has returned */
    }
    if (!asked)
        first = now;
    if (asked != SIGTERM)
        asked = sig;
}

void mf_stop_catch(void)
{
    struct sigaction stop = {.sa_handler = on_signal}; /* no SA_RESTART: a blocked call must return */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}

void mf_stop_hold(bool held)
{
    hold = held;
}

int mf_stop_caught(void)
{
    return asked;
}

void mf_stop_show(int sig)
{
    shown = sig ? sig : shown;
}

int mf_stop_signal(void)
{
    return hold ? shown : asked;
}

void mf_stop_defer(bool deferred)
{
    defer = deferred;
}

int mf_stop_check(struct mf_err *err)
{
    return !defer && mf_stop_signal() == SIGTERM ? mf_err_set(err, MF_STOPPED, "stopped by SIGTERM") : 0;
}

int mf_stop_any(struct mf_err *err)
{
    return mf_stop_signal() ? mf_err_set(err, MF_STOPPED, "stopped by a signal") : 0;
}

int mf_stop_die(int sig)
{
    signal(sig, SIG_DFL);
    raise(sig);
    return 128 + sig;
}
