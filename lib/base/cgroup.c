#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

/* The path in a line "4:cpu,cpuacct:/job" of the controller, or in version 2's "0::/job"; NULL: another controller. */
static char *path_in(char *line, const char *controller, bool *v2)
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return NULL;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    *v2 = !list[1];
    if (*v2)
        return strcmp(line, "0:") == 0 ? path : NULL;
    for (char *next = list + 1, *word; (word = strsep(&next, ","));)
        if (!strcmp(word, controller))
            return path;
    return NULL;
}

void mf_cgroup_each(const char *root, const char *controller, void (*visit)(void *arg, const char *folder, bool v2),
                    void *arg)
{
    char path[600], line[512], folder[1200], *at;
    bool v2;
    snprintf(path, sizeof path, "%.500s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (!(at = path_in(line, controller, &v2)))
            continue;
        for (char *end = at + strlen(at); end >= at; end--) {
            if (*end && *end != '/')
                continue;
            *end = '\0';
            snprintf(folder, sizeof folder, "%.500s/sys/fs/cgroup%s%s%s", root, v2 ? "" : "/", v2 ? "" : controller,
                     at);
            visit(arg, folder, v2);
        }
    }
    if (f)
        fclose(f);
}
