/* grid.h - a table of results as aligned text, Markdown, CSV or JSON, written row by row. */
#ifndef MF_EVAL_GRID_H
#define MF_EVAL_GRID_H

#include <stdio.h>

#include "stream/json.h"

enum mf_table_format { MF_TABLE_TEXT, MF_TABLE_MARKDOWN, MF_TABLE_CSV, MF_TABLE_JSON };

struct mf_grid_column {
    const char *head;
    int width; /* of text, in characters; negative: left-aligned */
};

struct mf_grid {
    FILE *to;
    enum mf_table_format format;
    const struct mf_grid_column *column;
    int n;    /* columns */
    int rows; /* written so far */
};

/* cell (n): for people; NULL in every row: the column is left out. j: the same row for programs, an object of the same
 * keys in every row; released. */
void mf_grid_row(struct mf_grid *g, const char *const *cell, json_t *j);
void mf_grid_end(struct mf_grid *g); /* once; also of a table without rows */

#endif
