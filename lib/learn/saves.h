/* saves.h - the checkpoints of a learner: which versions are saved, which of them stay, and their size. */
#ifndef MF_LEARN_SAVES_H
#define MF_LEARN_SAVES_H

#include "base/err.h"
#include "rl/trainer.h"
#include "stage/workdir.h"

struct mf_saves {
    bool leads;             /* of several ranks, which save together: rank 0, which has the folder */
    int64_t every;          /* versions; and the last one of a start */
    int64_t interval, keep; /* of permanent checkpoints; how many of them, 0: all */
};

/* Logs the size of a checkpoint, and of all that the folder will hold, unless they are small. */
void mf_saves_say(const struct mf_saves *s, const struct mf_trainer *t);
/* Of a new version, in all ranks: if it is due, saves it to the run's folder and removes the checkpoints that do not
 * stay. Otherwise writes what the next checkpoint needs of it (mf_trainer_keep). */
int mf_saves_next(const struct mf_saves *s, struct mf_trainer *t, struct mf_workdir *w, struct mf_err *err);
/* At the end, also after an error; of several ranks, if all are here: saves the rounds since the newest checkpoint,
 * with the last metrics (NULL: none) and the stream's head beside it. */
int mf_saves_last(const struct mf_saves *s, struct mf_trainer *t, struct mf_workdir *w, const struct mf_frame *metrics,
                  const struct mf_frame *head, struct mf_err *err);

#endif
