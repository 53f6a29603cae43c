/* rundir_shelf.c - the link `latest` of a shelf: outputs/SHELF/RUN has outputs/SHELF/latest. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "stage/rundir.h"

void mf_rundir_find_shelf(struct mf_rundir *r)
{
    static const char room[] = "outputs";
    const char *run = strrchr(r->path, '/'), *shelf = run;
    while (shelf > r->path && *--shelf != '/')
        ;
    const ptrdiff_t n = shelf - r->path, m = (ptrdiff_t)sizeof room - 1;
    if (!run || *shelf != '/' || n < m || strncmp(shelf - m, room, sizeof room - 1) != 0 ||
        (n > m && shelf[-m - 1] != '/') || !strcmp(run, "/latest"))
        return;
    snprintf(r->link, sizeof r->link, "%.*s/latest", (int)(run - r->path), r->path);
}

/* Whoever goes on with the run that was the latest has to name it now: so that is said. */
void mf_rundir_begun(struct mf_rundir *r)
{
    char fresh[MF_PATH_MAX + 32], was[MF_PATH_MAX];
    if (!*r->link)
        return;
    const char *run = strrchr(r->path, '/') + 1;
    const ssize_t n = readlink(r->link, was, sizeof was - 1);
    was[n > 0 ? n : 0] = '\0';
    snprintf(fresh, sizeof fresh, "%s.%ld", r->link, (long)getpid());
    if (symlink(run, fresh) < 0 || rename(fresh, r->link) < 0)
        unlink(fresh);
    else if (*was && strcmp(was, run) != 0)
        mf_log(MF_LOG_INFO, "%s is this run now, %s; it was %s", r->link, run, was);
    *r->link = 0;
}
