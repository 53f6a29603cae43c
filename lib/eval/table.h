/* table.h - a table of evaluation results for people and programs: a row for each policy and number of denoising steps,
 * written as soon as its result is known; rows that are compared with a reference, once all are known, since one
 * success in any of them decides what all compare. */
#ifndef MF_EVAL_TABLE_H
#define MF_EVAL_TABLE_H

#include "eval/eval.h"
#include "eval/grid.h"
#include "eval/paired.h"

struct mf_table {
    struct mf_grid grid;
    bool compares; /* rows are compared with a reference */
    struct mf_table_held *held;
    int n_held, n_succeeded; /* rows; those of them with a success */
};

struct mf_table_row {
    const char *checkpoint, *weights, *digest, *env;
    const char *suite;             /* of the tasks of its trials; NULL: rows do not tell */
    const char *task;              /* the row is of its trials alone; NULL: of all */
    int denoising_steps, seeds, n; /* n: trials of all seeds */
    struct mf_score_sheet scores;
    const struct mf_pairs
        *against; /* trials of the reference and these; NULL: this row is the reference, or has none */
};

void mf_table_init(struct mf_table *t, FILE *to, enum mf_table_format format, bool compares);
void mf_table_row(struct mf_table *t, const struct mf_table_row *r);
void mf_table_end(struct mf_table *t); /* writes what is held; a table without rows stays unwritten */

#endif
