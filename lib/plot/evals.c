#include "plot/evals.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "plot/html.h"
#include "eval/eval.h"
#include "eval/paired.h"
#include "eval/result.h"
#include "stream/json.h"

enum { TRIALS_MOST = 1 << 24 }; /* of one result */

/* A key missing in both is equal, too. */
static bool equal(const json_t *a, const json_t *b, const char *const *key, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_object_get(a, key[i]), *y = json_object_get(b, key[i]);
        if ((x || y) && !json_equal(x, y))
            return false;
    }
    return true;
}

static bool same_trials(const json_t *a, const json_t *b)
{
    static const char *const key[] = {"env", "server", "suite", "max_steps", "seed", "n"};
    return equal(a, b, key, sizeof key / sizeof *key);
}

bool mf_evals_same_policy(const json_t *a, const json_t *b)
{
    static const char *const key[] = {"digest", "weights", "denoising_steps", "policy",    "engine", "env",
                                      "server", "suite",   "tokenizer",       "max_steps", "n"};
    return equal(a, b, key, sizeof key / sizeof *key);
}

bool mf_evals_same_task(const json_t *a, const json_t *b)
{
    static const char *const key[] = {"env", "suite", "max_steps"};
    return equal(a, b, key, sizeof key / sizeof *key);
}

/* ---- reading ---- */

static const json_t *column(const json_t *result, const char *name)
{
    return json_object_get(json_object_get(result, "trials"), name);
}

static bool all_numbers(const json_t *column, json_int_t n, double most, bool or_null)
{
    size_t k;
    const json_t *v;
    bool good = (json_int_t)json_array_size(column) == n;
    json_array_foreach(column, k, v) good =
        good && (json_is_null(v) ? or_null : json_is_number(v) && fabs(json_number_value(v)) <= most);
    return good;
}

/* Are all fields that the table reads present and of the right type? */
static bool is_result(const json_t *j)
{
    static const char *const words[] = {"checkpoint", "digest", "weights", "env"}, *const counts[] = {"denoising_steps",
                                                                                                      "seed",
                                                                                                      "max_steps"};
    const json_int_t n = json_integer_value(json_object_get(j, "n"));
    bool good = n > 0 && n <= TRIALS_MOST;
    for (int i = 0; i < 4; i++)
        good = good && json_is_string(json_object_get(j, words[i]));
    for (int i = 0; i < 3; i++)
        good = good && json_is_integer(json_object_get(j, counts[i]));
    return good && all_numbers(column(j, "success_once"), n, 1, false) &&
           all_numbers(column(j, "success_at_end"), n, 1, false) && all_numbers(column(j, "return"), n, 1e300, true) &&
           all_numbers(column(j, "length"), n, INT32_MAX, false);
}

void mf_evals_row_add(struct mf_evals_row *to, json_t *j)
{
    for (int i = 0; i < to->seeds; i++)
        if (same_trials(to->result[i], j))
            return;
    to->result = mf_xrealloc(to->result, (size_t)to->seeds + 1, sizeof(json_t *));
    to->result[to->seeds++] = j;
}

static void take(struct mf_evals *e, json_t *j)
{
    int r = 0;
    while (r < e->n && !mf_evals_same_policy(e->row[r].result[0], j))
        r++;
    if (r == e->n) {
        e->row = mf_xrealloc(e->row, (size_t)e->n + 1, sizeof *e->row);
        e->row[e->n++] = (struct mf_evals_row){.seeds = 0};
    }
    mf_evals_row_add(&e->row[r], j);
}

/* Number of invalid results in the object. The first result of a file tells whether its policy is fine-tuned. */
static int take_whole(struct mf_evals *e, json_t *j, struct mf_evals_found *file)
{
    if (!is_result(j))
        return 1;
    if (!file->result)
        file->tuned = json_integer_value(json_object_get(j, "iter")) > 0;
    file->result = j;
    file->at = e->n_found;
    e->found = mf_xrealloc(e->found, (size_t)e->n_found + 1, sizeof *e->found);
    e->found[e->n_found++] = *file;
    json_incref(j);
    return 0;
}

/* Is there anything but white space before the end? */
static bool goes_on(FILE *f)
{
    int c;
    while (isspace(c = getc(f)))
        ;
    return ungetc(c, f) != EOF;
}

/* One object, or one after the other: eval.json has "results" in one, eval.results a result in each. */
void mf_evals_read_file(struct mf_evals *e, int word, const char *dir, const char *name)
{
    struct mf_evals_found file = {.word = word, .folder = e->folders};
    struct stat st;
    struct mf_err why;
    json_error_t bad;
    FILE *f = mf_file_read_in(dir, name, &why);
    json_t *j, *one;
    size_t i;
    int lacking = 0;
    bool results = f && fstat(fileno(f), &st) == 0;
    if (results)
        file.time = st.st_mtim;
    while (results && goes_on(f)) {
        if (!(j = json_loadf(f, JSON_DISABLE_EOF_CHECK, &bad))) {
            mf_log(MF_LOG_WARN, "%s/%s is cut or damaged: skipped the rest of it (%s)", dir, name, bad.text);
            break;
        }
        const json_t *many = json_object_get(j, "results");
        const bool single = json_object_get(j, "trials");
        results = json_is_array(many) || single; /* otherwise not a file of results: stop, as metrics may be long */
        if (single)
            lacking += take_whole(e, j, &file);
        json_array_foreach(many, i, one) lacking += take_whole(e, one, &file);
        json_decref(j);
    }
    if (lacking)
        mf_log(MF_LOG_WARN, "%s/%s: skipped %d of its results: a field is missing or of the wrong type", dir, name,
               lacking);
    if (f)
        fclose(f);
    else
        mf_log(MF_LOG_WARN, "%s; skipped", why.text);
}

static int of_json(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && (!strcmp(dot, ".json") || !strcmp(dot, ".jsonl"));
}

void mf_evals_read(struct mf_evals *e, int word, const char *dir, const char *below)
{
    struct dirent **entry;
    char path[PATH_MAX], name[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, below);
    e->folders++;
    const int n = scandir(path, &entry, of_json, versionsort);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", entry[i]->d_name);
        mf_evals_read_file(e, word, dir, name);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

/* A file keeps its order; files of clones come before those of fine-tuned policies, even if those are older. */
static int by_time(const void *a, const void *b)
{
    const struct mf_evals_found *x = a, *y = b;
    if (x->word != y->word)
        return x->word < y->word ? -1 : 1;
    if (x->tuned != y->tuned)
        return x->tuned ? 1 : -1;
    if (x->folder != y->folder)
        return x->folder - y->folder;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return x->at - y->at;
}

void mf_evals_sort(struct mf_evals *e)
{
    if (e->n_found)
        qsort(e->found, (size_t)e->n_found, sizeof *e->found, by_time);
    for (int i = 0; i < e->n_found; i++)
        take(e, e->found[i].result);
}

void mf_evals_release(struct mf_evals *e)
{
    for (int i = 0; i < e->n_found; i++)
        json_decref(e->found[i].result);
    free(e->found);
    for (int i = 0; i < e->n; i++)
        free(e->row[i].result);
    free(e->row);
}

/* ---- the table ---- */

double mf_evals_sum(const struct mf_evals_row *r, const char *name)
{
    double total = 0;
    size_t k;
    const json_t *v;
    for (int i = 0; i < r->seeds; i++)
        json_array_foreach(column(r->result[i], name), k, v) total += mf_json_number_of(v);
    return total;
}

int64_t mf_evals_trials(const struct mf_evals_row *r)
{
    return r->seeds * (int64_t)json_integer_value(json_object_get(r->result[0], "n"));
}

void mf_evals_returns(const struct mf_evals_row *r, struct mf_moments *to)
{
    size_t k;
    const json_t *v;
    for (int i = 0; i < r->seeds; i++)
        json_array_foreach(column(r->result[i], "return"), k, v) mf_moments_add(to, mf_json_number_of(v));
}

static void pair(const json_t *first, const json_t *r, struct mf_pairs *to)
{
    const json_t *once[] = {column(first, "success_once"), column(r, "success_once")},
                 *ret[] = {column(first, "return"), column(r, "return")};
    for (size_t k = 0; k < json_array_size(once[1]); k++)
        mf_pairs_add(to, json_integer_value(json_array_get(once[0], k)) != 0,
                     mf_json_number_of(json_array_get(ret[0], k)), json_integer_value(json_array_get(once[1], k)) != 0,
                     mf_json_number_of(json_array_get(ret[1], k)));
}

void mf_evals_pair(const struct mf_evals_row *first, const struct mf_evals_row *r, struct mf_pairs *to)
{
    for (int a = 0; a < first->seeds; a++)
        for (int b = 0; b < r->seeds; b++)
            if (same_trials(first->result[a], r->result[b]))
                pair(first->result[a], r->result[b], to);
}

/* The first of this task with as many denoising steps, as mf-eval compares too; of the first, itself. */
static const struct mf_evals_row *reference(const struct mf_evals *e, const struct mf_evals_row *r)
{
    static const char *const key[] = {"denoising_steps", "env", "server", "suite", "max_steps"};
    const struct mf_evals_row *first = e->row;
    while (!equal(first->result[0], r->result[0], key, sizeof key / sizeof *key))
        first++;
    return first;
}

static void put_rate(FILE *to, const struct mf_evals_row *r, const char *name)
{
    const struct mf_rate s = mf_wilson((int64_t)mf_evals_sum(r, name), mf_evals_trials(r));
    fprintf(to, "<td class=\"n\">%.3f <span class=\"dim\">(%.3f to %.3f)</span></td>", s.rate, s.low, s.high);
}

static void put_against(FILE *to, const struct mf_evals_row *first, const struct mf_evals_row *r, enum mf_measure of)
{
    struct mf_pairs pairs = {0};
    mf_evals_pair(first, r, &pairs);
    const struct mf_paired p = mf_pairs_compare(&pairs, of);
    if (first == r)
        fputs("<td>the reference</td>", to);
    else if (p.n == 0)
        fputs("<td>other trials</td>", to);
    else {
        const int digits = mf_mean_digits(p.difference);
        fprintf(to,
                "<td class=\"n\">%+.*f <span class=\"dim\">(%+.*f to %+.*f)</span><br/>%lld won, %lld lost, "
                "<span class=\"dim\">p = %.2g</span></td>",
                digits, p.difference, digits, p.low, digits, p.high, (long long)p.won, (long long)p.lost, p.p);
    }
}

static void put_row(FILE *to, const struct mf_evals *e, const struct mf_evals_row *r, enum mf_measure of)
{
    const json_t *one = r->result[0], *engine = json_object_get(one, "engine");
    const char *suite = json_string_value(json_object_get(one, "suite"));
    const double n = (double)mf_evals_trials(r);
    struct mf_moments returns = {0};
    mf_html_put(to, "<tr><td><code>", json_string_value(json_object_get(one, "checkpoint")),
                "</code><br/><span class=\"dim\">");
    mf_html_put(to, "", json_string_value(json_object_get(one, "digest")), ", ");
    mf_html_put(to, "", json_string_value(json_object_get(one, "weights")), " weights; ");
    mf_html_put(to, "", json_string_value(json_object_get(engine, "program")), ", ");
    mf_html_put(to, "", json_string_value(json_object_get(engine, "device")), " ");
    mf_html_put(to, "", json_string_value(json_object_get(engine, "precision")), "</span></td>");
    mf_html_put(to, "<td>", json_string_value(json_object_get(one, "env")), suite ? ", " : "");
    mf_html_put(to, "", suite ? suite : "", "</td>");
    fprintf(to, "<td class=\"n\">%lld</td><td class=\"n\">%d</td><td class=\"n\">%.0f</td>",
            (long long)json_integer_value(json_object_get(one, "denoising_steps")), r->seeds, n);
    put_rate(to, r, "success_once");
    put_rate(to, r, "success_at_end");
    mf_evals_returns(r, &returns);
    const struct mf_mean m = mf_moments_mean(&returns);
    fprintf(to, "<td class=\"n\">%.4g", m.mean);
    if (!isnan(m.low))
        fprintf(to, " <span class=\"dim\">(%.4g to %.4g)</span>", m.low, m.high);
    fprintf(to, "</td><td class=\"n\">%.1f</td>", mf_evals_sum(r, "length") / n);
    put_against(to, reference(e, r), r, of);
    fputs("</tr>\n", to);
}

static bool same_env(const struct mf_evals_row *a, const struct mf_evals_row *b)
{
    static const char *const key[] = {"env", "server"};
    return equal(a->result[0], b->result[0], key, sizeof key / sizeof *key);
}

/* Rows of one environment, by one measure. */
static void put_table(const struct mf_evals *e, const struct mf_evals_row *first, FILE *to)
{
    int64_t trials = 0, succeeded = 0;
    for (const struct mf_evals_row *r = first; r < e->row + e->n; r++)
        if (same_env(first, r)) {
            trials += mf_evals_trials(r);
            succeeded += (int64_t)mf_evals_sum(r, "success_once");
        }
    const enum mf_measure of = mf_measure_of(trials, succeeded);
    fprintf(to,
            "<div class=\"wide\"><table class=\"evaluations\"><tr><th>checkpoint</th><th>task</th>"
            "<th>denoising steps</th><th>seeds</th><th>trials</th><th>success</th><th>success at the end</th>"
            "<th>return</th><th>length</th><th>difference of %s</th></tr>\n",
            mf_measure_names[of]);
    for (const struct mf_evals_row *r = first; r < e->row + e->n; r++)
        if (same_env(first, r))
            put_row(to, e, r, of);
    fputs("</table></div>\n", to);
}

void mf_evals_put(const struct mf_evals *e, FILE *to)
{
    if (e->n == 0)
        return;
    fputs(
        "<h2>Evaluations</h2>\n<p>Fixed trials without noise, from the files of mf-eval in these folders. In brackets "
        "95 % intervals: Wilson's, and Newcombe's for the difference of success from the first row on the same "
        "trials, with McNemar's exact p; of returns Student's. Where no trial of a table succeeded, the returns are "
        "compared, by the paired t test.</p>\n",
        to);
    for (int i = 0; i < e->n; i++) {
        int k = 0;
        while (!same_env(&e->row[k], &e->row[i]))
            k++;
        if (k == i)
            put_table(e, &e->row[i], to);
    }
}
