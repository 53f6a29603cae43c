/* open.c - which processes are one learner: as the environment says that mpirun and srun give to theirs, or by
 * MF_RANKS_ADDRESS, which needs no MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plugin.h"
#include "ranks/ranks.h"
#include "ranks/tcp.h"
#include "ranks/transport.h"

/* "": it is not set. */
static const char *text_of(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "";
}

/* -1: it is not set, or no number. */
static int number(const char *name)
{
    const char *text = text_of(name);
    return *text && strlen(text) < 10 && text[strspn(text, "0123456789")] == '\0' ? atoi(text) : -1;
}

/* Rank 0's, for all of a start without MPI; NULL: there is none. */
static const char *address(void)
{
    const char *text = text_of("MF_RANKS_ADDRESS");
    return *text ? text : NULL;
}

/* Open MPI's mpirun; Hydra's, of MPICH and Intel; srun --mpi=pmix. With an address also by hand, and any srun. */
static bool numbers(int *n, int *me)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"SLURM_STEP_NUM_TASKS", "PMIX_RANK"},
                                           {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
    const int first_n = number("MF_RANKS"), first_me = number("MF_RANK");
    const bool by_hand = address() && first_n > 0 && *text_of("MF_RANK");
    *n = by_hand ? first_n : 1;
    *me = by_hand ? first_me : 0;
    for (int i = 0; !by_hand && *n == 1 && i < (address() ? 4 : 3); i++)
        if (number(names[i][0]) > 1 && number(names[i][1]) >= 0) {
            *n = number(names[i][0]);
            *me = number(names[i][1]);
        }
    return *n > 1;
}

bool mf_ranks_launched(int *me)
{
    int n, rank;
    const bool several = numbers(&n, &rank);
    if (several && me)
        *me = rank;
    return several;
}

int mf_ranks_check_hand(struct mf_err *err)
{
    const char *n = text_of("MF_RANKS"), *me = text_of("MF_RANK");
    if (!*n && !*me)
        return 0;
    if (!*n || !*me || !address())
        return mf_err_set(err, MF_EUSAGE,
                          "a start of several by hand needs MF_RANKS_ADDRESS=HOST:PORT, MF_RANKS and, in each process, "
                          "MF_RANK: here they are '%.200s', '%.40s' and '%.40s'",
                          text_of("MF_RANKS_ADDRESS"), n, me);
    return number("MF_RANKS") > 0 ? 0 : mf_err_set(err, MF_EUSAGE, "MF_RANKS=%.40s is no number of processes", n);
}

/* What a process has as stdout; "": unknown. */
static void stdout_of(pid_t pid, char to[64])
{
    char link[40];
    snprintf(link, sizeof link, "/proc/%d/fd/1", (int)pid);
    const ssize_t n = readlink(link, to, 63);
    to[n > 0 ? n : 0] = '\0';
}

static pid_t parent_of(pid_t pid)
{
    char path[40], line[128] = "";
    const char *after;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        fgets(line, sizeof line, f);
        fclose(f);
    }
    int parent = 0;
    after = strrchr(line, ')'); /* behind the program's name, which may be any */
    return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* mpirun is the next process above with another stdout: shells and other programs may stand between. */
bool mf_ranks_relayed(void)
{
    char own[64], to[64] = "";
    stdout_of(getpid(), own);
    for (pid_t p = getppid(); p > 0 && (!*to || !strcmp(to, own)); p = parent_of(p))
        stdout_of(p, to);
    return getenv("OMPI_COMM_WORLD_SIZE") && *to && strcmp(to, own) != 0 && strncmp(to, "/dev/pts/", 9) != 0 &&
           strncmp(to, "/dev/tty", 8) != 0;
}

static int open_tcp(struct mf_ranks **r, int n, int me, double patience, struct mf_err *err)
{
    void *self;
    if (me < 0 || me >= n || n > MF_RANKS_MOST)
        return mf_err_set(
            err, MF_EUSAGE,
            "MF_RANKS_ADDRESS is set, and this is rank %d of %d: give each process a number MF_RANK from 0 "
            "to before MF_RANKS, at most %d",
            me, n, MF_RANKS_MOST);
    int rc = mf_tcp_open(&self, address(), n, me, patience, err);
    return rc ? rc : mf_ranks_on(r, &mf_tcp, self, n, me, patience, err);
}

int mf_ranks_open(struct mf_ranks **r, double patience, struct mf_err *err)
{
    const size_t sizes[MF_PLUGIN_STRUCTS] = MF_TRANSPORT_SIZES;
    const void *table;
    void *self;
    int n, me;
    *r = NULL;
    if (!numbers(&n, &me))
        return 0;
    if (address())
        return open_tcp(r, n, me, patience, err);
    int rc = mf_plugin_find(&table, "mpi", "ranks=auto", sizes, err);
    if (rc)
        return rc;
    const struct mf_transport *t = table;
    if (!t)
        return mf_err_set(err, MF_EUSAGE,
                          "started by mpirun or srun as one of several processes, but this installation has no MPI "
                          "plugin (mf_mpi.so): build it where mpicc is, give MF_RANKS_ADDRESS, or start one process");
    if ((rc = t->open(&self, &n, &me, err)))
        return rc;
    if (n <= MF_RANKS_MOST)
        return mf_ranks_on(r, t, self, n, me, patience, err);
    t->close(self, 2, patience);
    return mf_err_set(err, MF_EUSAGE, "%d ranks are more than %d", n, MF_RANKS_MOST);
}
