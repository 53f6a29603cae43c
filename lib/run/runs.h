/* runs.h - the meaning of a path, for every program that takes a RUN or a CHECKPOINT.
 *
 *   a run      a folder with checkpoints/ or logs/metrics.mf: of mf-ppo (checkpoints/NNNNNN.safetensors, by version),
 *              or of mf-bc (checkpoints/clone.safetensors)
 *   a shelf    a folder of runs, outputs/NAME, whose link `latest` names one: it stands for that run
 *   a folder   any other folder: of checkpoints, of runs without `latest`, or of neither
 *   a file     anything else that exists
 */
#ifndef MF_RUN_RUNS_H
#define MF_RUN_RUNS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { MF_PATH_MAX = 1024 };

enum mf_at_kind { MF_AT_FILE, MF_AT_RUN, MF_AT_FOLDER };

struct mf_at {
    enum mf_at_kind kind;
    bool shelf;             /* the path named a shelf, and this is its latest run */
    char path[MF_PATH_MAX]; /* the file, the run's folder, the folder */
};

/* DIR/NAME. MF_EUSAGE: it is too long. */
int mf_runs_join(char path[MF_PATH_MAX], const char *dir, const char *name, struct mf_err *err);

/* MF_EIO where the path, or a shelf's `latest`, leads nowhere; MF_EUSAGE for a path that is too long. */
int mf_runs_at(struct mf_at *at, const char *path, struct mf_err *err);
bool mf_runs_is_run(const char *dir);
/* MF_EUSAGE for a folder that is not a run, with the names of the runs in it. */
int mf_runs_not_one(const char *dir, struct mf_err *err);
/* Resolves a link such as outputs/point/latest, which a later run will move. Other paths stay as they are. */
void mf_runs_resolve(const char *dir, char path[MF_PATH_MAX]);

/* The checkpoint of a path: the file; of a run, a shelf or a folder of checkpoints the newest numbered one, else
 * clone.safetensors, else the only one. Errors as mf_runs_at's, and MF_EUSAGE where there is none or several remain. */
int mf_runs_checkpoint(const char *path, char file[MF_PATH_MAX], struct mf_err *err);
/* Errors as its, and MF_EUSAGE if two of the paths have one checkpoint. */
int mf_runs_once(int n, const char *const *paths, struct mf_err *err);
/* Every checkpoint's file of a run, a shelf or a folder of checkpoints: *.safetensors, no links. In no order.
 * MF_EUSAGE: it is one file, or a folder without any. */
int mf_runs_files(const char *path, void (*visit)(const char *file, void *arg), void *arg, struct mf_err *err);

/* checkpoints/NNNNNN.safetensors of a version in a run's folder, and the newest (false: none is numbered). One that is
 * cut or half-written is passed over with a warning, unless there is no other. */
void mf_runs_version(const char *run, long long version, char path[MF_PATH_MAX]);
bool mf_runs_newest(const char *run, char path[MF_PATH_MAX]);
/* checkpoints/clone.safetensors of a run's folder; false: missing. */
bool mf_runs_clone(const char *run, char path[MF_PATH_MAX]);
/* Calls visit, unless NULL, for every numbered checkpoint; returns the largest version, or -1. */
long long mf_runs_each(const char *run, void (*visit)(const char *run, long long version, void *arg), void *arg);

/* The run's metrics, a stream that its learner writes: RUN/logs/metrics.mf. */
void mf_runs_metrics(const char *run, char path[MF_PATH_MAX]);

/* The path of a checkpoint's video: RUN/checkpoints/000100.safetensors -> RUN/videos/000100 and the ending; elsewhere
 * it lies beside the checkpoint. */
void mf_runs_video(const char *checkpoint, const char *ending, char *path, size_t size);

#endif
