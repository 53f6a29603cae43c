#include "base/plugin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_LETTERS = 32 };

static bool is_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz");
    return n > 0 && n <= NAME_MAX_LETTERS && !name[n];
}

/* The file that the environment names; dlopen would search a name without a folder elsewhere. */
static bool named(char *path, size_t room, const char *name)
{
    char key[NAME_MAX_LETTERS + 8] = "MF_";
    for (size_t i = 0; name[i]; i++)
        key[3 + i] = (char)toupper((unsigned char)name[i]);
    const char *file = getenv(key);
    if (!file || !*file)
        return false;
    snprintf(path, room, "%s%s", strchr(file, '/') ? "" : "./", file);
    return true;
}

/* ROOT/lib/maniflow where it is installed, ROOT/build/lib where it was built; the executable is in ROOT/bin. */
static bool beside(char *path, size_t room, const char *name)
{
    static const char *const folders[] = {"lib/maniflow", "build/lib"};
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = '\0';
    char *end = strrchr(exe, '/');
    for (size_t i = 0; end && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, room, "%.*s/../%s/mf_%s.so", (int)(end - exe), exe, folders[i], name);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static int check(const struct mf_plugin *p, const char *asked, const char *path, const size_t *sizes,
                 struct mf_err *err)
{
    if (strcmp(p->version, MF_VERSION) != 0)
        return mf_err_set(err, MF_EUSAGE,
                          "%s: the plugin %s is of version %.40s and this program of " MF_VERSION
                          "; install both from one build",
                          asked, path, p->version);
    if (memcmp(p->sizes, sizes, sizeof p->sizes) != 0)
        return mf_err_set(err, MF_EUSAGE, "%s: the plugin %s is of another build than this program; build both anew",
                          asked, path);
    return 0;
}

int mf_plugin_find(const void **table, const char *name, const char *asked, const size_t sizes[MF_PLUGIN_STRUCTS],
                   struct mf_err *err)
{
    char path[PATH_MAX + 64];
    *table = NULL;
    if (!is_name(name) || !(named(path, sizeof path, name) || beside(path, sizeof path, name)))
        return 0;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return mf_err_set(err, MF_EUSAGE, "%s: the plugin cannot be loaded: %s", asked, dlerror());
    const struct mf_plugin *p = dlsym(object, "mf_plugin");
    int rc = p ? check(p, asked, path, sizes, err)
               : mf_err_set(err, MF_EUSAGE, "%s: %s is no plugin of maniflow", asked, path);
    if (rc)
        dlclose(object);
    else
        *table = p->table;
    return rc;
}
