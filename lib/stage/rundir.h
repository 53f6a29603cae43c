/* rundir.h - a run's folder: checkpoints/ logs/ configs/ videos/, and a lock while somebody writes it. */
#ifndef MF_STAGE_RUNDIR_H
#define MF_STAGE_RUNDIR_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/conf.h"
#include "data/runs.h"

struct mf_frame;

struct mf_rundir {
    char path[MF_PATH_MAX];
    int lock;               /* descriptor; -1: not ours */
    char link[MF_PATH_MAX]; /* outputs/<task>/latest, until it points here; "": nothing to link */
};

/* Make and lock the folder; configs/machine says where. dir NULL: outputs/<task>/<date-time>. MF_EIO where another run
 * holds it; MF_EUSAGE where one was used before and neither resume nor force is set. force removes the old checkpoints
 * and metrics. */
int mf_rundir_open(struct mf_rundir *r, const char *dir, const char *task, bool resume, bool force, struct mf_err *err);
void mf_rundir_close(struct mf_rundir *r);
/* It has learned something: outputs/<task>/latest is this run, from its first checkpoint on and not from a start that
 * came to nothing. Only of a folder that was chosen by open; again is fine. */
void mf_rundir_begun(struct mf_rundir *r);

/* Is a run going on in this folder? (Somebody holds its lock.) */
bool mf_rundir_is_live(const char *dir);
/* Be the one learner of such a run, until close: MF_EIO where it has one. */
int mf_rundir_learn(struct mf_rundir *r, const char *dir, struct mf_err *err);
/* From now on the log also goes to logs/PROGRAM.log; the resolved configuration to configs/PROGRAM.yaml. Where that
 * cannot be, the run goes on without. */
void mf_rundir_join(const char *dir, const char *program, const struct mf_conf *conf);
/* Beside the checkpoint of a version, as JSON: its metrics, and the head of the stream it was learned from. Nothing of
 * it determines the numbers, so where it cannot be written the run goes on without. */
void mf_rundir_note(const char *dir, long long version, const struct mf_frame *metrics, const struct mf_frame *head);
/* Remove numbered checkpoints but the last `keep` up to `newest` and every `every`-th. */
void mf_rundir_prune(const char *dir, long long newest, int keep, long long every);

#endif
