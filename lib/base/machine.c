#include "base/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cpus.h"

void mf_machine(char *text, size_t size)
{
    struct utsname u;
    char line[256], cpu[256] = "an unknown processor";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *is = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || !is)
            continue;
        snprintf(cpu, sizeof cpu, "%.*s", (int)strcspn(is + 2, "\n"), is + 2);
        break;
    }
    if (f)
        fclose(f);
    if (uname(&u) < 0)
        memset(&u, 0, sizeof u);
    snprintf(text, size, "%s, %s %s %s, %d of %s", u.nodename, u.sysname, u.release, u.machine, mf_cpus(""), cpu);
}
