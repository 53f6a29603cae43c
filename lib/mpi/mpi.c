/* mpi.c - the transport over MPI (MPI-3, 3.7: nonblocking point-to-point messages), as the plugin mf_mpi.so. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/plugin.h"
#include "ranks/transport.h"

struct mpi {
    MPI_Request *request;
    int *which; /* requests that Testsome has ended */
    int n, room;
};

static int failed(const char *call, int code, struct mf_err *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n;
    MPI_Error_string(code, text, &n);
    return mf_err_set(err, MF_EIO, "%s: %.300s", call, text);
}

static int open_mpi(void **self, int *n, int *me, struct mf_err *err)
{
    int level, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code)
        return failed("MPI_Init_thread", code, err);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, n);
    MPI_Comm_rank(MPI_COMM_WORLD, me);
    *self = mf_xcalloc(1, sizeof(struct mpi));
    return 0;
}

static MPI_Request *next(struct mpi *m)
{
    if (m->n == m->room) {
        m->room = m->room ? 2 * m->room : 64;
        m->request = mf_xrealloc(m->request, (size_t)m->room, sizeof *m->request);
        m->which = mf_xrealloc(m->which, (size_t)m->room, sizeof *m->which);
    }
    return &m->request[m->n++];
}

static int send_bytes(void *self, int to, const void *bytes, size_t n, struct mf_err *err)
{
    int code = MPI_Isend(bytes, (int)n, MPI_BYTE, to, 0, MPI_COMM_WORLD, next(self));
    return code ? failed("MPI_Isend", code, err) : 0;
}

static int receive_bytes(void *self, int from, void *bytes, size_t n, struct mf_err *err)
{
    int code = MPI_Irecv(bytes, (int)n, MPI_BYTE, from, 0, MPI_COMM_WORLD, next(self));
    return code ? failed("MPI_Irecv", code, err) : 0;
}

static int poll_all(void *self, bool *ended, struct mf_err *err)
{
    struct mpi *m = self;
    int n, left = 0, code = MPI_Testsome(m->n, m->request, &n, m->which, MPI_STATUSES_IGNORE);
    if (code)
        return failed("MPI_Testsome", code, err);
    for (int i = 0; n != MPI_UNDEFINED && i < n; i++)
        ended[m->which[i]] = true;
    for (int i = 0; i < m->n; i++)
        left += !ended[i];
    if (left == 0)
        m->n = 0;
    return left;
}

/* MPI_Finalize waits for all ranks without limit; for one that has stopped, mpirun then ends. */
static void late(int signal)
{
    static const char text[] = "mf: error: all is saved, but another rank has not left MPI within ranks_timeout\n";
    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

static void close_mpi(void *self, int status, double patience)
{
    struct mpi *m = self;
    if (status)
        MPI_Abort(MPI_COMM_WORLD, status);
    signal(SIGALRM, late);
    alarm(patience < 1e6 ? 1 + (unsigned)patience : 0);
    MPI_Finalize();
    alarm(0);
    free(m->request);
    free(m->which);
    free(m);
}

static const struct mf_transport mpi = {open_mpi, send_bytes, receive_bytes, poll_all, close_mpi};

const struct mf_plugin mf_plugin = {MF_VERSION, &mpi, MF_TRANSPORT_SIZES};
