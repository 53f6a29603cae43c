/* cloning_report.h - some minibatches of cloning as a metrics frame, and as progress on stderr. */
#ifndef MF_FLOW_CLONING_REPORT_H
#define MF_FLOW_CLONING_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/cloning.h"
#include "stream/frame.h"

struct mf_cloning_report {
    int64_t iter;                         /* of the frame */
    int64_t step, steps;                  /* minibatches so far, and of the run */
    int64_t taken;                        /* of them in this frame, >= 1 */
    double time, speed;                   /* s of training of the run so far; samples/s */
    const struct mf_cloning_stats *stats; /* of those */
};

struct mf_cloning_progress {
    bool all;        /* log.progress: every second; a table on a terminal */
    double shown_at; /* mf_now */
    int rows;        /* printed rows of the table */
};

/* Loss, learning rate and norm of the gradient; the caller adds more, and frees it. */
struct mf_frame *mf_cloning_report_frame(const struct mf_cloning_report *r);
/* Shows the status line, and a row or a line if one is due. */
void mf_cloning_report_show(const struct mf_cloning_report *r, struct mf_cloning_progress *p);

#endif
