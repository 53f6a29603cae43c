#include "eval/grid.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- for people ---- */

/* A cell of Markdown: | is escaped. */
static void put_escaped(FILE *to, const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            putc('\\', to);
        putc(*s, to);
    }
}

static void put_cells(const struct mf_grid *g, const char *const *cell)
{
    const char *gap = "";
    for (int i = 0; i < g->n; i++) {
        if (!cell[i])
            continue;
        if (g->format == MF_TABLE_TEXT)
            fprintf(g->to, "%s%*s", gap, g->column[i].width, cell[i]);
        else {
            fputs(*gap ? " | " : "| ", g->to);
            put_escaped(g->to, cell[i]);
        }
        gap = "  ";
    }
    fputs(g->format == MF_TABLE_TEXT ? "\n" : " |\n", g->to);
}

static void put_heads(const struct mf_grid *g, const char *const *first)
{
    const char **cell = mf_xcalloc((size_t)g->n, sizeof *cell), **rule = mf_xcalloc((size_t)g->n, sizeof *rule);
    for (int i = 0; i < g->n; i++) {
        cell[i] = first[i] ? g->column[i].head : NULL;
        rule[i] = !first[i] ? NULL : g->column[i].width > 0 ? "--:" : ":--";
    }
    put_cells(g, cell);
    if (g->format == MF_TABLE_MARKDOWN)
        put_cells(g, rule);
    free(cell);
    free(rule);
}

/* ---- for programs ---- */

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

static void put_csv(const struct mf_grid *g, json_t *row)
{
    const char *key, *comma = "";
    json_t *v;
    if (g->rows == 0) {
        json_object_foreach(row, key, v)
        {
            fprintf(g->to, "%s%s", comma, key);
            comma = ",";
        }
        fputs("\n", g->to);
    }
    comma = "";
    json_object_foreach(row, key, v)
    {
        fputs(comma, g->to);
        comma = ",";
        if (json_is_string(v))
            put_field(g->to, json_string_value(v));
        else if (json_is_number(v))
            fprintf(g->to, "%.9g", json_number_value(v));
    }
    fputs("\n", g->to);
}

void mf_grid_row(struct mf_grid *g, const char *const *cell, json_t *j)
{
    struct mf_err ignored;
    if (g->format == MF_TABLE_TEXT || g->format == MF_TABLE_MARKDOWN) {
        if (g->rows == 0)
            put_heads(g, cell);
        put_cells(g, cell);
        json_decref(j);
    } else if (g->format == MF_TABLE_CSV) {
        put_csv(g, j);
        json_decref(j);
    } else {
        fputs(g->rows ? ",\n" : "[\n", g->to);
        (void)mf_json_write(j, "", g->to, &ignored);
    }
    g->rows++;
    fflush(g->to);
}

void mf_grid_end(struct mf_grid *g)
{
    if (g->format == MF_TABLE_JSON)
        fputs(g->rows ? "\n]\n" : "[]\n", g->to);
    fflush(g->to);
}
