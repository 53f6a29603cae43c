/* survey.h - all that a file of demonstrations holds, and what is wrong with it.
 *
 * Every dataset of every demo is looked at, also those that nobody here
 * reads; every number is read, a few MiB at a time. What a reader would
 * stumble over is a problem, what surprises one is a warning; both are whole
 * sentences that name the demo and the dataset. Actions, observations,
 * rewards and dones have a row for each step; other datasets may have other
 * rows (Isaac Lab's initial_state, MimicGen's src_demo_inds).
 */
#ifndef MF_DEMOS_SURVEY_H
#define MF_DEMOS_SURVEY_H

#include "demos/demos.h"
#include "stream/frame.h"
#include "demos/moments.h"

enum { MF_SURVEY_TEXTS = 20 }; /* problems, and warnings, that are kept; all are counted */

struct mf_survey_set { /* a dataset that demos have, as the first one has it */
    char name[128];    /* within the demo: "obs/object" */
    bool numbers;      /* else texts and the like: no dtype, no moments */
    enum mf_dtype dtype;
    int rank; /* of a row */
    size_t dim[MF_RANK_MAX];
    bool by_step;               /* a row for each step, in every demo */
    size_t fits;                /* demos in which that is so */
    size_t demos, rows;         /* that have it; of all of them */
    const struct mf_demo *last; /* that had it */
    size_t wide;                /* moments: a step's numbers where it is 1-D, else 1 for all numbers */
    struct mf_moments *moments; /* of what is finite */
};

struct mf_survey {
    size_t n_demos, total;
    struct mf_demo *demo; /* by id */
    char *env_args;       /* JSON, or NULL */
    uint64_t bytes;       /* of the file */
    bool recording;       /* of mf-record: it has the frames too */
    int n_sets, n_masks;
    struct mf_survey_set *set; /* by name */
    struct mf_survey_mask {
        char *name;
        size_t n;
    } * mask;
    struct mf_survey_notes {
        size_t n;
        char *text[MF_SURVEY_TEXTS];
    } problems, warnings;
};

struct mf_survey_opts {
    const char *filter;                                  /* /mask/FILTER; NULL: every demo */
    bool values;                                         /* read the numbers too */
    void (*progress)(void *arg, size_t done, size_t of); /* after each demo; NULL: nobody */
    void *arg;
};

/* Fails where there is nothing to survey. On failure *s holds nothing. */
int mf_survey(struct mf_survey *s, const char *path, const struct mf_survey_opts *opts, struct mf_err *err);
void mf_survey_release(struct mf_survey *s);

#endif
