/* folder.h - a folder of a test's own, which its main makes by mkdtemp and removes. */
#ifndef MF_FOLDER_H
#define MF_FOLDER_H

#include <stdio.h>

static char folder[] = "/tmp/mf-test-XXXXXX";

/* A path in it; two are valid at a time. */
static inline const char *in_folder(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

#endif
