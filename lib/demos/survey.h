/* survey.h - the content of a file of demonstrations, and its faults.
 *
 * Every dataset of every demo is checked, also those that no program here uses; every number is read, a few MiB at a
 * time. A problem makes the file unreadable for others, a warning is something unusual; both are whole sentences that
 * name the demo and the dataset. Actions, observations, rewards and dones have a row for each step; other datasets may
 * have other rows (Isaac Lab's initial_state, MimicGen's src_demo_inds).
 */
#ifndef MF_DEMOS_SURVEY_H
#define MF_DEMOS_SURVEY_H

#include "demos/demos.h"
#include "stream/frame.h"
#include "base/moments.h"

enum { MF_SURVEY_TEXTS = 20 }; /* problems, and warnings, that are kept; all are counted */

struct mf_survey_set { /* a dataset of the demos, with the form that it has in the first */
    char name[128];    /* within the demo: "obs/object" */
    bool numbers;      /* else text or similar: no dtype, no moments */
    enum mf_dtype dtype;
    int rank; /* of a row */
    size_t dim[MF_RANK_MAX];
    bool by_step;               /* a row for each step, in every demo */
    size_t fits;                /* demos with a row for each step */
    size_t demos, rows;         /* that have it; their rows in total */
    const struct mf_demo *last; /* that had it */
    size_t wide;                /* moments: one for each number of a 1-D step, else 1 for all numbers */
    struct mf_moments *moments; /* of finite numbers */
};

struct mf_survey {
    size_t n_demos, total;
    struct mf_demo *demo; /* by id */
    char *env_args;       /* JSON, or NULL */
    uint64_t bytes;       /* of the file */
    bool recording;       /* written by mf-record: it has the frames too */
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
    void (*progress)(void *arg, size_t done, size_t of); /* called after each demo; NULL: not called */
    void *arg;
};

/* Fails where there is nothing to survey. On failure *s holds nothing. */
int mf_survey(struct mf_survey *s, const char *path, const struct mf_survey_opts *opts, struct mf_err *err);
void mf_survey_release(struct mf_survey *s);

#endif
