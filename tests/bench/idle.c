/* idle - how long all stages of a pipeline wait at once: idle COMMAND..
 *
 * Runs the command, a script whose children are the stages (its output thrown away), and looks every other millisecond
 * at the state of each of their threads: none running and none at the disk is a wait of all. One line of key=value
 * words.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static bool thread_works(long pid, const char *tid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/task/%.20s/stat", pid, tid);
    slurp(path, text, sizeof text);
    const char *after = strrchr(text, ')'); /* "pid (name) state" */
    return after && (after[2] == 'R' || after[2] == 'D');
}

static bool process_works(long pid)
{
    char path[64];
    bool works = false;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && !works && (e = readdir(d));)
        works = e->d_name[0] != '.' && thread_works(pid, e->d_name);
    if (d)
        closedir(d);
    return works;
}

/* How many children there are; *works: one of them does. */
static int look(long parent, bool *works)
{
    char path[64], text[4096], *at = text;
    int n = 0;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", parent, parent);
    slurp(path, text, sizeof text);
    *works = false;
    for (long pid; (pid = strtol(at, &at, 10)) > 0; n++)
        *works = *works || process_works(pid);
    return n;
}

int main(int argc, char **argv)
{
    double begin = 0, wall = 0, idle = 0;
    long looks = 0, waits = 0;
    int status, stages = 0;
    if (argc < 2)
        return 2;
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stdout))
            execvp(argv[1], argv + 1);
        _exit(127);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        bool works;
        int n = look(pid, &works);
        stages = n > stages ? n : stages;
        if (n == stages && n > 1) { /* from when all are there until the first ends */
            begin = begin > 0 ? begin : now();
            wall = now() - begin;
            looks++;
            waits += !works;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    idle = looks ? wall * (double)waits / (double)looks : 0;
    printf("stages=%d wall=%.3f idle=%.3f looks=%ld\n", stages, wall, idle, looks);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
