/* ranks.h - the processes of one learner, started together by mpirun or srun; in MPI's words, ranks 0 .. n-1.
 *
 * All ranks compute the same numbers from the same input, except for work that a caller divides: then each has a part,
 * and afterwards all have the whole. Rank 0 alone reads, writes and serves. So a result has the same bits for any
 * number of ranks.
 *
 * All ranks call the same verbs in the same order, with the same sizes. NULL is a process alone, in which verbs do
 * nothing. A verb may fail with MF_EIO: the transport failed, or another rank is late. Then all that is left is
 * mf_ranks_close.
 */
#ifndef MF_RANKS_RANKS_H
#define MF_RANKS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mf_ranks;
struct mf_transport;

enum {
    MF_RANKS_MOST = 1024,
    MF_RANKS_FILES = 10,
};

/* Was this process started as one of several: by mpirun or srun (with its MPI plugin); or with MF_RANKS_ADDRESS, by any
 * srun or as MF_RANK of MF_RANKS? *me, if not NULL: its rank. Reads the environment alone. */
bool mf_ranks_launched(int *me);
/* For a process that was not: MF_EUSAGE if only some of MF_RANKS_ADDRESS, MF_RANKS and MF_RANK are set. */
int mf_ranks_check_hand(struct mf_err *err);
/* The number of this process among those that mpirun or srun started on this host, from 0; of any other process, 0.
 * Reads the environment alone. */
int mf_ranks_local(void);
/* Is stdout a pseudo-terminal of mpirun, which passes bytes on to a stdout that is none? */
bool mf_ranks_relayed(void);
/* Joins the other processes of this start; *r NULL: it is alone. patience: seconds for which a rank waits for a late
 * one. MF_EUSAGE: this installation has no plugin for MPI. */
int mf_ranks_open(struct mf_ranks **r, double patience, struct mf_err *err);
int mf_ranks_on(
    struct mf_ranks **r, const struct mf_transport *t, void *self, int n, int me, double patience,
    struct mf_err *err); /* the same, on an open transport, which is r's from here on; also after an error */
/* status 0: all ranks close, without limit while rank 0 does not; where another one is late, rank 0 ends all of them
 * with 1. Otherwise it ends them with that exit status. NULL is fine. */
void mf_ranks_close(struct mf_ranks *r, int status);

int mf_ranks_count(const struct mf_ranks *r);
int mf_ranks_me(const struct mf_ranks *r);
const char *mf_ranks_host(const struct mf_ranks *r, int rank);
double mf_ranks_patience(const struct mf_ranks *r);

/* Rank k's part of n items are those from mf_ranks_first(r, k, n) to before mf_ranks_first(r, k + 1, n). */
size_t mf_ranks_first(const struct mf_ranks *r, int k, size_t n);

/* Rank 0's bytes to all. The others wait without limit, since rank 0 waits for its input. */
int mf_ranks_broadcast(struct mf_ranks *r, void *bytes, size_t n, struct mf_err *err);
/* All are here, before the same minibatch, and agree on what each has done of it, as below. A signal that any has
 * caught (base/stop.h) shows in all. A rank that waits warns of the late one after 10 s, and fails after `patience`. */
int mf_ranks_meet(struct mf_ranks *r, int rc, struct mf_err *err);
/* The same of ranks without an error, and an array is gathered on the way, which saves a wait. */
int mf_ranks_meet_with(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err);
/* All are here, after work of their own such as reading files: they wait MF_RANKS_FILES times as long. */
int mf_ranks_await(struct mf_ranks *r, struct mf_err *err);
/* Of an array, rank k has items [first[k], first[k + 1]); now all have all. */
int mf_ranks_gather(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err);
/* The same, to rank 0 alone. The others wait without limit, since rank 0 writes. */
int mf_ranks_collect(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err);
/* Of a matrix with `stride` floats from row to row, rank k has the rows at[i] for i in [row[k], row[k + 1]); now it has
 * the columns [column[k], column[k + 1]) of all such rows. */
int mf_ranks_exchange(struct mf_ranks *r, float *matrix, size_t stride, const size_t *row, const size_t *at,
                      const size_t *column, struct mf_err *err);
/* Of an array of rank 0, rank k gets items [first[k], first[k + 1]), as `mine`. `all` is read in rank 0 alone. */
int mf_ranks_scatter(struct mf_ranks *r, const void *all, void *mine, size_t item, const size_t *first,
                     struct mf_err *err);
/* All to all: rank k gets bytes [to[k], to[k + 1]) of `gives`, but for this one itself, and those that it gives to this
 * one come to [from[k], from[k + 1]) of `gets`. */
int mf_ranks_swap(struct mf_ranks *r, const void *gives, const size_t *to, void *gets, const size_t *from,
                  struct mf_err *err);
/* Moves n things of `bytes` each, from ranks to ranks. `has` is read in its rank `from` alone, `gets` is written in
 * `to` alone, and the list is else the same in all. */
struct mf_ranks_move {
    int from, to;
    const void *has;
    void *gets;
};
int mf_ranks_move(struct mf_ranks *r, const struct mf_ranks_move *move, size_t n, size_t bytes, struct mf_err *err);
int mf_ranks_add(struct mf_ranks *r, int64_t *number, int n, struct mf_err *err); /* n sums over all ranks */
/* Of what each has done alone, with the result rc and *err: 0 in all or, in all, the error of the first that has one,
 * with its name. MF_EIO, which may come from another's error, comes after all others. */
int mf_ranks_agree(struct mf_ranks *r, int rc, struct mf_err *err);
/* MF_EDEVICE in a rank whose bytes are not rank 0's; `what` names them in the error. */
int mf_ranks_compare(struct mf_ranks *r, const void *bytes, size_t n, const char *what, struct mf_err *err);

#endif
