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
                                                      {NULL, -27},
                                                      {"won:lost", 8},
                                                      {"p", 7},
                                                      {"file", 0}};

/* By the measure: what "against the first" is about. */
static const char *const compared[] = {"success against first, 95 %", "return against first, 95 %"};

struct mf_table_held {
    char text[COLUMNS - 1][64];
    char *file;
    json_t *j;
    bool suite, paired;
    struct mf_pairs against; /* if paired */
};

void mf_table_init(struct mf_table *t, FILE *to, enum mf_table_format format, bool compares)
{
    *t = (struct mf_table){.grid = {.to = to, .format = format, .column = column, .n = COLUMNS}, .compares = compares};
}

static json_t *row_json(const struct mf_table_row *r)
{
    json_t *j = json_pack("{s:o, s:s, s:s, s:o, s:i, s:i, s:i}", "checkpoint", mf_json_text(r->checkpoint), "digest",
                          r->digest, "weights", r->weights, "env", mf_json_text(r->env), "denoising_steps",
                          r->denoising_steps, "seeds", r->seeds, "n", r->n);
    if (r->suite)
        json_object_set_new(j, "suite", mf_json_text(r->suite));
    if (r->task)
        json_object_set_new(j, "task", mf_json_text(r->task));
    mf_scores_json(j, &r->scores);
    return j;
}

static void make_row(struct mf_table_held *h, const struct mf_table_row *r)
{
    const struct mf_rate *a = &r->scores.success_once, *b = &r->scores.success_at_end;
    const char *file = r->task ? r->task : r->checkpoint;
    const size_t size = sizeof *h->text;
    *h = (struct mf_table_held){.suite = r->suite, .paired = r->against};
    snprintf(h->text[0], size, "%d", r->n);
    snprintf(h->text[1], size, "%d", r->denoising_steps);
    snprintf(h->text[SUITE], size, "%s", r->suite ? r->suite : "");
    snprintf(h->text[3], size, "%.3f [%.3f, %.3f]", a->rate, a->low, a->high);
    snprintf(h->text[4], size, "%.3f [%.3f, %.3f]", b->rate, b->low, b->high);
    mf_mean_text(&r->scores.ret, h->text[5], size);
    mf_number(h->text[6], "%.1f", r->scores.length);
    mf_number(h->text[7], "%.4f", r->scores.straightness);
    snprintf(h->text[8], size, "%s", r->weights);
    h->file = mf_xstrdup(file);
    h->file[mf_plain_copy(h->file, h->file, strlen(h->file))] = '\0';
    h->j = row_json(r);
    if (r->against)
        h->against = *r->against;
}

static void compare(struct mf_table_held *h, enum mf_measure of)
{
    const struct mf_paired p = mf_pairs_compare(&h->against, of);
    if (h->paired)
        mf_paired_text(&p, h->text[9], h->text[10], h->text[11], sizeof *h->text);
    mf_paired_json(h->j, h->paired ? &p : NULL);
    json_object_set_new(h->j, "measure", json_string(mf_measure_names[of]));
}

static void put(struct mf_table *t, struct mf_table_held *h)
{
    const char *cell[COLUMNS];
    for (int i = 0; i < COLUMNS - 1; i++)
        cell[i] =
            (t->compares || i < FIRST_COMPARED || i > LAST_COMPARED) && (i != SUITE || h->suite) ? h->text[i] : NULL;
    cell[COLUMNS - 1] = h->file;
    mf_grid_row(&t->grid, cell, h->j);
    free(h->file);
}

void mf_table_row(struct mf_table *t, const struct mf_table_row *r)
{
    struct mf_table_held h;
    make_row(&h, r);
    if (!t->compares) {
        put(t, &h);
        return;
    }
    t->n_succeeded += r->scores.success_once.rate > 0;
    t->held = mf_xrealloc(t->held, (size_t)t->n_held + 1, sizeof *t->held);
    t->held[t->n_held++] = h;
}

void mf_table_end(struct mf_table *t)
{
    const enum mf_measure of = mf_measure_of(t->n_held, t->n_succeeded);
    struct mf_grid_column heads[COLUMNS];
    memcpy(heads, column, sizeof heads);
    heads[FIRST_COMPARED].head = compared[of];
    t->grid.column = heads;
    for (int i = 0; i < t->n_held; i++) {
        compare(&t->held[i], of);
        put(t, &t->held[i]);
    }
    free(t->held);
    if (t->grid.rows)
        mf_grid_end(&t->grid);
    t->grid.column = column;
}
