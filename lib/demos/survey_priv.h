/* survey_priv.h - what the files of a survey share. */
#ifndef MF_DEMOS_SURVEY_PRIV_H
#define MF_DEMOS_SURVEY_PRIV_H

#include "demos/h5.h"
#include "demos/survey.h"

struct mf_surveying {
    struct mf_survey *s;
    const struct mf_survey_opts *opts;
    const char *path;
    hid_t file;
    double *band;
    size_t band_size;
    /* the present demo */
    struct mf_demo *demo;
    bool unclipped;       /* warned of it */
    bool no_obs;          /* a missing obs was reported */
    struct mf_err broken; /* what ends the survey */
};

void mf_survey_note(struct mf_survey_notes *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool mf_survey_must_fit(const char *name); /* readers need a row for each step */
/* One dataset of the present demo. */
int mf_survey_add(struct mf_surveying *v, hid_t set, const char *name, struct mf_err *err);

#endif
