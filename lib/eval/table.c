#include "eval/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/plain.h"
#include "eval/result.h"

/* ---- for people ---- */

enum { COLUMNS = 11, FIRST_COMPARED = 7, LAST_COMPARED = 9 };
static const struct {
    const char *head;
    int width; /* negative: left-aligned */
} column[COLUMNS] = {
    {"trials", 6}, {"steps", 5},    {"success once, 95 %", -20},      {"at the end, 95 %", -20}, {"return", 7},
    {"length", 6}, {"weights", -7}, {"against the first, 95 %", -23}, {"won:lost", 8},           {"p", 7},
    {"file", 0}};

/* A cell of Markdown: | is escaped. */
static void put_escaped(FILE *to, const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            putc('\\', to);
        putc(*s, to);
    }
}

static void put_cells(const struct mf_table *t, const char *const cell[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        if (!t->compares && i >= FIRST_COMPARED && i <= LAST_COMPARED)
            continue;
        if (t->format == MF_TABLE_TEXT)
            fprintf(t->to, "%s%*s", i ? "  " : "", column[i].width, cell[i]);
        else {
            fputs(i ? " | " : "| ", t->to);
            put_escaped(t->to, cell[i]);
        }
    }
    fputs(t->format == MF_TABLE_TEXT ? "\n" : " |\n", t->to);
}

static void put_heads(const struct mf_table *t)
{
    const char *cell[COLUMNS], *rule[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        cell[i] = column[i].head;
        rule[i] = column[i].width > 0 ? "--:" : ":--";
    }
    put_cells(t, cell);
    if (t->format == MF_TABLE_MARKDOWN)
        put_cells(t, rule);
}

static void put_row(const struct mf_table *t, const struct mf_table_row *r)
{
    char text[COLUMNS - 1][64] = {""};
    const char *cell[COLUMNS];
    const struct mf_rate *a = &r->scores.success_once, *b = &r->scores.success_at_end;
    const struct mf_paired *p = r->against;
    size_t size = sizeof *text;
    snprintf(text[0], size, "%d", r->n);
    snprintf(text[1], size, "%d", r->denoising_steps);
    snprintf(text[2], size, "%.3f [%.3f, %.3f]", a->rate, a->low, a->high);
    snprintf(text[3], size, "%.3f [%.3f, %.3f]", b->rate, b->low, b->high);
    mf_number(text[4], "%.3f", r->scores.ret);
    mf_number(text[5], "%.1f", r->scores.length);
    snprintf(text[6], size, "%s", r->weights);
    if (p) {
        snprintf(text[7], size, "%+.3f [%+.3f, %+.3f]", p->difference, p->low, p->high);
        snprintf(text[8], size, "%lld:%lld", (long long)p->won, (long long)p->lost);
        snprintf(text[9], size, "%.2g", p->p);
    }
    for (int i = 0; i < COLUMNS - 1; i++)
        cell[i] = text[i];
    char *file = mf_xstrdup(r->checkpoint);
    file[mf_plain_copy(file, file, strlen(file))] = '\0';
    cell[COLUMNS - 1] = file;
    put_cells(t, cell);
    free(file);
}

/* ---- for programs ---- */

static json_t *row_json(const struct mf_table *t, const struct mf_table_row *r)
{
    json_t *j = json_pack("{s:o, s:s, s:s, s:o, s:i, s:i, s:i}", "checkpoint", mf_json_text(r->checkpoint), "digest",
                          r->digest, "weights", r->weights, "env", mf_json_text(r->env), "denoising_steps",
                          r->denoising_steps, "seeds", r->seeds, "n", r->n);
    mf_scores_json(j, &r->scores);
    const struct mf_paired *p = r->against;
    if (t->compares)
        json_object_update_new(j, p ? json_pack("{s:f, s:f, s:f, s:I, s:I, s:f}", "difference", p->difference,
                                                "difference_low", p->low, "difference_high", p->high, "won",
                                                (json_int_t)p->won, "lost", (json_int_t)p->lost, "p", p->p)
                                    : json_pack("{s:n, s:n, s:n, s:n, s:n, s:n}", "difference", "difference_low",
                                                "difference_high", "won", "lost", "p"));
    return j;
}

/* RFC 4180 */
static void put_field(FILE *to, const char *s)
{
    if (!s[strcspn(s, ",\"\n\r")]) {
        fputs(s, to);
        return;
    }
    putc('"', to);
    for (; *s; s++) {
        if (*s == '"')
            putc('"', to);
        putc(*s, to);
    }
    putc('"', to);
}

static void put_csv(const struct mf_table *t, json_t *row)
{
    const char *key, *comma = "";
    json_t *v;
    if (t->rows == 0) {
        json_object_foreach(row, key, v)
        {
            fprintf(t->to, "%s%s", comma, key);
            comma = ",";
        }
        fputs("\n", t->to);
    }
    comma = "";
    json_object_foreach(row, key, v)
    {
        fputs(comma, t->to);
        comma = ",";
        if (json_is_string(v))
            put_field(t->to, json_string_value(v));
        else if (!json_is_null(v))
            fprintf(t->to, "%.9g", json_number_value(v));
    }
    fputs("\n", t->to);
}

void mf_table_row(struct mf_table *t, const struct mf_table_row *r)
{
    struct mf_err ignored;
    if (t->format == MF_TABLE_TEXT || t->format == MF_TABLE_MARKDOWN) {
        if (t->rows == 0)
            put_heads(t);
        put_row(t, r);
    } else {
        json_t *j = row_json(t, r);
        if (t->format == MF_TABLE_CSV) {
            put_csv(t, j);
            json_decref(j);
        } else {
            fputs(t->rows ? ",\n" : "[\n", t->to);
            (void)mf_json_write(j, "", t->to, &ignored);
        }
    }
    t->rows++;
    fflush(t->to);
}

void mf_table_end(struct mf_table *t)
{
    if (t->format == MF_TABLE_JSON)
        fputs(t->rows ? "\n]\n" : "[]\n", t->to);
    fflush(t->to);
}
