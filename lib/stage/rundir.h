/* rundir.h - a run's folder: checkpoints/ logs/ configs/ videos/, and a lock while somebody writes it.
 *
 * A shelf, outputs/NAME, holds runs and the link `latest` to the one that was trained last; a run holds no other run.
 * Opening a folder leaves what is in it as it is: a run that is refused later, by its learner or a filter, must not
 * change the one that was there. What a run writes of itself it writes once it is accepted.
 */
#ifndef MF_STAGE_RUNDIR_H
#define MF_STAGE_RUNDIR_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/conf.h"
#include "run/runs.h"

struct mf_frame;

struct mf_rundir_opts { /* the keys run.* of who makes a run, as MF_RUNDIR_BINDS binds them */
    const char *dir;    /* NULL: outputs/<task>/<date-time> */
    const char *task;   /* any text: what is no name is made one */
    int resume;         /* not 0: go on there */
    bool force;         /* start afresh: the old checkpoints go when the run is accepted */
    bool clones;        /* a run of mf-bc: its one checkpoint is clone.safetensors, any other's have numbers */
    double wait;        /* s that a run which resumes waits for the one that still has the folder */
};

#define MF_RUNDIR_BINDS(type, member)                                                                                  \
    {"run.dir", offsetof(type, member.dir)}, {"run.resume", offsetof(type, member.resume)},                            \
        {"run.force", offsetof(type, member.force)},                                                                   \
    {                                                                                                                  \
        "run.wait", offsetof(type, member.wait)                                                                        \
    }

struct mf_rundir {
    char path[MF_PATH_MAX];
    int lock;               /* descriptor; -1: not ours */
    char link[MF_PATH_MAX]; /* the shelf's latest, until it points here; "": nothing to link */
    bool noted;             /* there are no locks: a note in the file says whose it is */
    bool forget;            /* the old checkpoints, when the run is accepted */
};

/* Make the folder and lock it; on a file system without locks it is opened all the same, with a warning. MF_EIO where
 * another run holds it; MF_EUSAGE where one was used before and neither resume nor force is set, where one of the other
 * kind lies there (clones) and force is not set, where the folder lies in another run, and where it is a shelf;
 * MF_STOPPED while it waited. */
int mf_rundir_open(struct mf_rundir *r, const struct mf_rundir_opts *o, struct mf_err *err);
void mf_rundir_close(struct mf_rundir *r);
/* The run begins: configs/machine says where, and with run.force the old checkpoints go. */
void mf_rundir_accepted(struct mf_rundir *r);
/* It has learned something: the shelf's latest is this run, from its first checkpoint on and not from a start that came
 * to nothing. Again is fine. */
void mf_rundir_begun(struct mf_rundir *r);

/* Is a run in progress in this folder? (Somebody holds its lock.) */
bool mf_rundir_is_live(const char *dir);
/* Be the one learner of such a run, until close: MF_EIO where it has one, after so many seconds. */
int mf_rundir_learn(struct mf_rundir *r, const char *dir, double wait, struct mf_err *err);
/* From now on the log also goes to logs/PROGRAM.log; the resolved configuration to configs/PROGRAM.yaml. Where that
 * cannot be, the run goes on without. false: another process of this name has joined the run, and nothing is written.
 */
bool mf_rundir_join(const char *dir, const char *program, const struct mf_conf *conf);
/* Where collectors and learner meet: ipc://RUN/policy.sock, or in a private folder below $XDG_RUNTIME_DIR, $TMPDIR or
 * /tmp where that is longer than the path of a socket may be. MF_EIO where no such folder can be had. */
int mf_rundir_socket(const char *dir, char *address, size_t size, struct mf_err *err);

/* Beside the checkpoint of a version, as JSON: its metrics, and the head of the stream it was learned from. Nothing of
 * it determines the numbers, so where it cannot be written the run goes on without. */
void mf_rundir_note(const char *dir, long long version, const struct mf_frame *metrics, const struct mf_frame *head);
/* Remove numbered checkpoints but the last `keep` up to `newest` and, of every `every`-th, the last `most` (0: all). */
void mf_rundir_prune(const char *dir, long long newest, int keep, long long every, long long most);
void mf_rundir_forget(const char *dir); /* all of them */

#endif
