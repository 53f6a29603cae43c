#include "base/stop.h"

#include <signal.h>

static volatile sig_atomic_t asked;

static void on_signal(int sig)
{
    asked = sig;
}

void mf_stop_catch(void)
{
    /* No SA_RESTART: a blocked call must return. SA_RESETHAND: the second one kills. */
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}

int mf_stop_signal(void)
{
    return asked;
}

int mf_stop_check(struct mf_err *err)
{
    return asked == SIGTERM ? mf_err_set(err, MF_STOPPED, "asked to end by SIGTERM") : 0;
}

int mf_stop_die(int sig)
{
    signal(sig, SIG_DFL);
    raise(sig);
    return 128 + sig;
}
