#include "eval/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/plain.h"
#include "eval/result.h"

enum { COLUMNS = 13, SUITE = 2, FIRST_COMPARED = 9, LAST_COMPARED = 11 };
static const struct mf_grid_column column[COLUMNS] = {{"trials", 6},
                                                      {"steps", 5},
                                                      {"suite", -8},
                                                      {"success once, 95 %", -20},
                                                      {"at the end, 95 %", -20},
                                                      {"return, 95 %", -20},
                                                      {"length", 6},
                                                      {"straightness", 12},
                                                      {"weights", -7},
                                                      {"against the first, 95 %", -23},
                                                      {"won:lost", 8},
                                                      {"p", 7},
                                                      {"file", 0}};

void mf_table_init(struct mf_table *t, FILE *to, enum mf_table_format format, bool compares)
{
    *t = (struct mf_table){.grid = {.to = to, .format = format, .column = column, .n = COLUMNS}, .compares = compares};
}

static json_t *row_json(const struct mf_table *t, const struct mf_table_row *r)
{
    json_t *j = json_pack("{s:o, s:s, s:s, s:o, s:i, s:i, s:i}", "checkpoint", mf_json_text(r->checkpoint), "digest",
                          r->digest, "weights", r->weights, "env", mf_json_text(r->env), "denoising_steps",
                          r->denoising_steps, "seeds", r->seeds, "n", r->n);
    if (r->suite)
        json_object_set_new(j, "suite", mf_json_text(r->suite));
    if (r->task)
        json_object_set_new(j, "task", mf_json_text(r->task));
    mf_scores_json(j, &r->scores);
    if (t->compares)
        mf_paired_json(j, r->against);
    if (t->compares)
        json_object_set_new(j, "measure", r->against ? json_string(mf_measure_names[r->against->of]) : json_null());
    return j;
}

void mf_table_row(struct mf_table *t, const struct mf_table_row *r)
{
    char text[COLUMNS - 1][64] = {""};
    const char *cell[COLUMNS];
    const struct mf_rate *a = &r->scores.success_once, *b = &r->scores.success_at_end;
    size_t size = sizeof *text;
    snprintf(text[0], size, "%d", r->n);
    snprintf(text[1], size, "%d", r->denoising_steps);
    snprintf(text[SUITE], size, "%s", r->suite ? r->suite : "");
    snprintf(text[3], size, "%.3f [%.3f, %.3f]", a->rate, a->low, a->high);
    snprintf(text[4], size, "%.3f [%.3f, %.3f]", b->rate, b->low, b->high);
    mf_mean_text(&r->scores.ret, text[5], size);
    mf_number(text[6], "%.1f", r->scores.length);
    mf_number(text[7], "%.4f", r->scores.straightness);
    snprintf(text[8], size, "%s", r->weights);
    if (r->against)
        mf_paired_text(r->against, text[9], text[10], text[11], size);
    if (r->against && r->against->of == MF_RETURN)
        strncat(text[9], " of return", size - strlen(text[9]) - 1);
    for (int i = 0; i < COLUMNS - 1; i++)
        cell[i] = (t->compares || i < FIRST_COMPARED || i > LAST_COMPARED) && (i != SUITE || r->suite) ? text[i] : NULL;
    char *file = mf_xstrdup(r->task ? r->task : r->checkpoint);
    file[mf_plain_copy(file, file, strlen(file))] = '\0';
    cell[COLUMNS - 1] = file;
    mf_grid_row(&t->grid, cell, row_json(t, r));
    free(file);
}
