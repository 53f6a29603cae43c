#include "base/fate.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *mf_fate(char text[MF_FATE], int status)
{
    const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    if (sig > 0)
        snprintf(text, MF_FATE, "was killed by signal %d (%s)", sig, strsignal(sig));
    else
        snprintf(text, MF_FATE, "ended with exit status %d", WEXITSTATUS(status));
    return text;
}
