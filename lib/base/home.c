#include "base/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The prefix before the path is kept. */
static char *expand(const char *word, size_t before, struct mf_err *err)
{
    const char *path = word + before, *home = getenv("HOME");
    if (*path != '~')
        return mf_xstrdup(word);
    if (path[1] && path[1] != '/') {
        mf_err_set(err, MF_EUSAGE, "only ~ and ~/ are expanded; write the other user's home folder in full");
        return NULL;
    }
    if (!home || !*home) {
        mf_err_set(err, MF_EUSAGE, "~ is $HOME, which is not set; write the folder in full");
        return NULL;
    }
    char *all = mf_xcalloc(before + strlen(home) + strlen(path), 1);
    sprintf(all, "%.*s%s%s", (int)before, word, home, path + 1);
    return all;
}

char *mf_home_path(const char *path, struct mf_err *err)
{
    return expand(path, 0, err);
}

char *mf_home_address(const char *address, struct mf_err *err)
{
    static const char ipc[] = "ipc://";
    size_t before = *address == '@' || *address == '>';
    if (!strncmp(address + before, ipc, sizeof ipc - 1))
        before += sizeof ipc - 1;
    return expand(address, before, err);
}
