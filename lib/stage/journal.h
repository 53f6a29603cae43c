/* journal.h - a run's logs/metrics.mf: every metrics frame, also when stdout goes elsewhere.
 *
 * A saved stream like any other: a head, metrics frames, and `end` after a regular end of the run. A resumed run keeps
 * the frames before the iteration at which it resumes, so that neither steps nor time (seconds of training of the whole
 * run) go backwards.
 */
#ifndef MF_STAGE_JOURNAL_H
#define MF_STAGE_JOURNAL_H

#include "base/err.h"
#include "stream/frame.h"

struct mf_journal;

int mf_journal_open(struct mf_journal **j, const char *dir, const struct mf_frame *head, int64_t iter,
                    struct mf_err *err);
/* Seconds of training in the kept frames, to which further time is added; 0: none were kept. */
double mf_journal_spent(const struct mf_journal *j);
int mf_journal_put(struct mf_journal *j, const struct mf_frame *metrics, struct mf_err *err);
/* ended: write the end frame first. NULL is fine. */
int mf_journal_close(struct mf_journal *j, bool ended, struct mf_err *err);

#endif
