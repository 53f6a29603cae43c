/* options.h - the command line of every program. Inside lib/stage only. */
#ifndef MF_STAGE_OPTIONS_H
#define MF_STAGE_OPTIONS_H

#include "stage/stage.h"

struct mf_options {
    char program[64]; /* "mf-gae" */
    const char *in, *out;
    struct mf_conf *conf;
    struct mf_bind *binds; /* of the stage and its tables */
    const char **operands;
    int n_operands;
    char **path; /* words with ~ expanded */
    int n_paths;
    char **said; /* argv without --in and --out, so that the stream does not depend on its carrier */
    int n_said;
};

/* 1: --help, --version or --cfg was answered on stdout. 0: continue. Negative: the command line is invalid. */
int mf_options_read(struct mf_options *o, const struct mf_stage *stage, int argc, char **argv, struct mf_err *err);
void mf_options_release(struct mf_options *o);

#endif
