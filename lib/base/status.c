#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *mf_status_text(char text[MF_STATUS_TEXT], int status)
{
    const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    if (sig > 0)
        snprintf(text, MF_STATUS_TEXT, "was killed by signal %d (%s)", sig, strsignal(sig));
    else
        snprintf(text, MF_STATUS_TEXT, "ended with exit status %d", WEXITSTATUS(status));
    return text;
}
