/* rundir.h - a run's folder: checkpoints/ logs/ configs/ videos/, and a lock while a process writes it.
 *
 * A shelf, outputs/NAME, holds runs and the link `latest` to the one trained last; a run contains no other run. Opening
 * a folder does not change its content: a run that its learner or a filter rejects later must not damage the run that
 * was there. A run writes its own files only after it is accepted.
 */
#ifndef MF_STAGE_RUNDIR_H
#define MF_STAGE_RUNDIR_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/conf.h"
#include "run/runs.h"

struct mf_frame;

struct mf_rundir_opts { /* the run.* keys of a program that makes a run */
    const char *dir;    /* NULL: outputs/<task>/<date-time> */
    const char *task;   /* any text; made a valid name (mf_name_plain) */
    int resume;         /* not 0: resume there */
    bool force;         /* start over: the old checkpoints are removed when the run is accepted */
    bool clones;        /* a run of mf-bc: its one checkpoint is clone.safetensors, any other's have numbers */
    double wait;        /* s that a resuming run waits for the process that still holds the folder */
};

extern const struct mf_bind mf_rundir_binds[];

struct mf_rundir {
    char path[MF_PATH_MAX];
    int lock;               /* descriptor; -1: not ours */
    char link[MF_PATH_MAX]; /* the shelf's latest, until it points here; "": nothing to link */
    char made[MF_PATH_MAX]; /* the first folder of `path` that was not there; "": all were */
    unsigned rooms;         /* bits of its folders that were not there */
    bool locked_first;      /* the lock's file was not there */
    bool noted;             /* no locks: a note in the file names the owner */
    bool forget;            /* the old checkpoints, when the run is accepted */
};

/* Makes the folder and locks it; on a file system without locks it warns and continues. MF_EIO: another process holds
 * it, or no checkpoint can be saved there. MF_EUSAGE: the folder holds a run and neither resume nor force is set; it
 * holds a run of the other kind (clones) and force is not set; it lies inside another run; it is a shelf. MF_STOPPED: a
 * signal while waiting. */
int mf_rundir_open(struct mf_rundir *r, const struct mf_rundir_opts *o, struct mf_err *err);
/* Of a run that was not accepted nothing stays that was made here, unless others have put something in. */
void mf_rundir_close(struct mf_rundir *r);
/* The run begins: writes configs/machine, and with run.force removes the old checkpoints. */
void mf_rundir_accepted(struct mf_rundir *r);
/* Sets r->link of a run on a shelf, by whatever path it is named. */
void mf_rundir_find_shelf(struct mf_rundir *r);
/* Links the shelf's latest to this run, and says which one it was. The learner calls it at the first checkpoint, so
 * that a run that fails to start is not linked. May be called again. */
void mf_rundir_begun(struct mf_rundir *r);

/* Is a run in progress in this folder (is its lock held)? */
bool mf_rundir_is_live(const char *dir);
/* Become the only learner of such a run, until close. MF_EIO: it still has another one after `wait` seconds. */
int mf_rundir_learn(struct mf_rundir *r, const char *dir, double wait, struct mf_err *err);
/* Removes the incomplete files of a learner that was killed. For whoever writes checkpoints there now. */
void mf_rundir_sweep(const char *dir);
/* MF_EIO: no checkpoint can be saved there. */
int mf_rundir_check_saves(const char *dir, struct mf_err *err);
/* Of a run that is to be resumed and has no checkpoint: a warning if it was there before. */
void mf_rundir_say_anew(const char *dir);
/* From now on copies the log to logs/PROGRAM.log; writes the resolved configuration to configs/PROGRAM.yaml. If that
 * fails, the run continues without. false: another process of this program has joined the run; nothing is written.
 */
bool mf_rundir_join(const char *dir, const char *program, const struct mf_conf *conf);
/* The policy's socket: ipc://RUN/policy.sock, or in a private folder below $XDG_RUNTIME_DIR, $TMPDIR or /tmp if that
 * path is too long for a socket. MF_EIO: no such folder can be created. */
int mf_rundir_socket(const char *dir, char *address, size_t size, struct mf_err *err);

/* Writes a JSON file beside the checkpoint of a version: its metrics, and the head of the stream it was trained on. It
 * is provenance only: if it cannot be written, the run continues without. */
void mf_rundir_note(const char *dir, long long version, const struct mf_frame *metrics, const struct mf_frame *head);
struct mf_rundir_kept {
    int newest;      /* the newest ones */
    long long every; /* only multiples of it are saved, and the last version of a start */
    long long interval,
        most; /* the permanent ones: the first saved in each interval of versions, the last `most` of them (0: all) */
};
/* Removes the other numbered checkpoints of a run whose newest version is this. */
void mf_rundir_prune(const char *dir, long long version, const struct mf_rundir_kept *kept);
void mf_rundir_forget(const char *dir); /* all of them */

#endif
