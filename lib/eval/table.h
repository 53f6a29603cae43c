/* table.h - a table of evaluation results for people and programs: a row for each policy and number of denoising steps,
 * written as soon as its result is known. */
#ifndef MF_EVAL_TABLE_H
#define MF_EVAL_TABLE_H

#include <stdio.h>

#include "eval/eval.h"
#include "eval/paired.h"

enum mf_table_format { MF_TABLE_TEXT, MF_TABLE_MARKDOWN, MF_TABLE_CSV, MF_TABLE_JSON };

struct mf_table {
    FILE *to;
    enum mf_table_format format;
    bool compares; /* rows are compared with a reference */
    int rows;      /* written so far */
};

struct mf_table_row {
    const char *checkpoint, *weights, *digest, *env;
    int denoising_steps, seeds, n; /* n: trials of all seeds */
    struct mf_score_sheet scores;
    const struct mf_paired *against; /* NULL: this row is the reference, or there is none */
};

void mf_table_row(struct mf_table *t, const struct mf_table_row *r);
void mf_table_end(struct mf_table *t); /* once; also of a table without rows */

#endif
