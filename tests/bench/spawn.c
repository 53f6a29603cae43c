/* spawn - what a program costs to start: spawn RUNS COMMAND.. < INPUT
 *
 * Runs it again and again on the same input, its output thrown away. One line of key=value words: the median of the
 * seconds from before the fork to after the exit, and the largest resident memory.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS_MAX = 1000 };
extern char **environ;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double seconds[RUNS_MAX];
    int runs = argc > 2 ? atoi(argv[1]) : 0;
    long peak = 0;
    posix_spawn_file_actions_t to_null;
    if (runs < 1 || runs > RUNS_MAX)
        return 2;
    posix_spawn_file_actions_init(&to_null);
    posix_spawn_file_actions_addopen(&to_null, 1, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < runs; i++) {
        pid_t pid;
        int status;
        struct rusage u;
        lseek(0, 0, SEEK_SET);
        double begin = now();
        if (posix_spawnp(&pid, argv[2], &to_null, NULL, argv + 2, environ) || wait4(pid, &status, 0, &u) < 0)
            return 1;
        seconds[i] = now() - begin;
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            return 1;
        peak = u.ru_maxrss > peak ? u.ru_maxrss : peak;
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, ascending);
    printf("seconds=%.6f peak_mib=%.1f\n", seconds[runs / 2], (double)peak / 1024);
    return 0;
}
