#include "plot/methods.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/runs.h"

static char *path_of(const char *folder, int64_t seed)
{
    const size_t size = strlen(folder) + 32;
    char *path = mf_xcalloc(size, 1);
    snprintf(path, size, "%s/%lld", folder, (long long)seed);
    return path;
}

static struct mf_method_run *run_at(struct mf_methods *m, int i)
{
    return &m->of[i / m->n_seeds].run[i % m->n_seeds];
}

static int read_evals(struct mf_methods *m, struct mf_err *err)
{
    static const char name[] = "logs/eval.json";
    char path[MF_PATH_MAX];
    struct mf_err ignored;
    for (int i = 0; i < m->n * m->n_seeds; i++)
        if (mf_runs_join(path, run_at(m, i)->path, name, &ignored) == 0 && access(path, F_OK) == 0)
            mf_evals_read_file(&m->evals, i, run_at(m, i)->path, name);
    for (int k = 0; k < m->evals.n_found; k++) {
        struct mf_method_run *r = run_at(m, m->evals.found[k].word);
        struct mf_evals_row *to = &r->eval;
        if (to->seeds && !mf_evals_same_policy(to->result[0], m->evals.found[k].result))
            return mf_err_set(err, MF_EUSAGE,
                              "%.150s/%s holds results of several policies, denoising steps or kinds of trials for "
                              "one run: evaluate it alone, by mf-eval %.150s eval.json=..",
                              r->path, name, r->path);
        mf_evals_row_add(to, m->evals.found[k].result);
    }
    return 0;
}

static void say_task(const json_t *result, char to[200])
{
    const char *suite = json_string_value(json_object_get(result, "suite"));
    snprintf(to, 200, "env=%.60s%s%.60s with env.max_steps=%lld", json_string_value(json_object_get(result, "env")),
             suite ? ", eval.suites=" : "", suite ? suite : "",
             (long long)json_integer_value(json_object_get(result, "max_steps")));
}

static int check_tasks(struct mf_methods *m, struct mf_err *err)
{
    const struct mf_method_run *first = NULL;
    char one[200], other[200];
    for (int i = 0; i < m->n * m->n_seeds; i++) {
        const struct mf_method_run *r = run_at(m, i);
        if (!r->eval.seeds)
            continue;
        first = first ? first : r;
        if (mf_evals_same_task(first->eval.result[0], r->eval.result[0]))
            continue;
        say_task(first->eval.result[0], one);
        say_task(r->eval.result[0], other);
        return mf_err_set(err, MF_EUSAGE,
                          "%.150s was evaluated in %s, but %.150s in %s: one table compares methods on one task; name "
                          "methods of one task, or evaluate all of them on one by mf-eval",
                          r->path, other, first->path, one);
    }
    return 0;
}

static int read_logs(struct mf_methods *m, struct mf_err *err)
{
    const int most = m->n * m->n_seeds;
    const char **word = mf_xcalloc((size_t)most + 1, sizeof *word);
    int *at = mf_xcalloc((size_t)most + 1, sizeof *at), n = 0, rc = 0;
    for (int i = 0; i < most; i++)
        if (mf_runs_is_run(run_at(m, i)->path))
            word[at[n] = i, n++] = run_at(m, i)->path;
    rc = mf_run_logs_open(&m->logs, word, n, err);
    for (int k = 0; k < m->logs.n && rc == 0; k++)
        run_at(m, at[m->logs.log[k].word])->log = &m->logs.log[k];
    free(word);
    free(at);
    return rc;
}

static void gather(struct mf_method *m, int n_seeds)
{
    m->cohort.log = mf_xcalloc((size_t)n_seeds + 1, sizeof(const struct mf_run_log *));
    for (int s = 0; s < n_seeds; s++) {
        const struct mf_run_log *log = m->run[s].log;
        if (log && log->h.ended)
            m->cohort.log[m->cohort.n++] = log;
    }
    m->clones = !strcmp(mf_cohort_unit(&m->cohort), "minibatches");
}

int mf_methods_open(struct mf_methods *m, const char *const *folder, int n, const struct mf_ints *seeds,
                    struct mf_err *err)
{
    *m = (struct mf_methods){.n = n, .n_seeds = seeds->n, .of = mf_xcalloc((size_t)n, sizeof *m->of)};
    for (int i = 0; i < n; i++) {
        const char *slash = strrchr(folder[i], '/');
        m->of[i].name = slash ? slash + 1 : folder[i];
        m->of[i].run = mf_xcalloc((size_t)seeds->n, sizeof *m->of[i].run);
        for (int s = 0; s < seeds->n; s++)
            m->of[i].run[s] = (struct mf_method_run){.seed = seeds->v[s], .path = path_of(folder[i], seeds->v[s])};
    }
    int rc = read_evals(m, err);
    rc = rc ? rc : check_tasks(m, err);
    rc = rc ? rc : read_logs(m, err);
    for (int i = 0; i < n && rc == 0; i++)
        gather(&m->of[i], m->n_seeds);
    return rc;
}

void mf_methods_close(struct mf_methods *m)
{
    for (int i = 0; i < m->n; i++) {
        for (int s = 0; s < m->n_seeds; s++) {
            free(m->of[i].run[s].path);
            free(m->of[i].run[s].eval.result);
        }
        free(m->of[i].run);
        free(m->of[i].cohort.log);
    }
    free(m->of);
    mf_run_logs_close(&m->logs);
    mf_evals_release(&m->evals);
}

bool mf_method_run_counts(const struct mf_method_run *r)
{
    return r->eval.seeds && (!r->log || r->log->h.ended);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct mf_method_score mf_method_score(const struct mf_method *m, int n_seeds, enum mf_measure of)
{
    struct mf_method_score s = {.median = NAN, .low = NAN, .high = NAN};
    double *mean = mf_xcalloc((size_t)n_seeds + 1, sizeof *mean);
    for (int i = 0; i < n_seeds; i++) {
        const struct mf_evals_row *e = &m->run[i].eval;
        if (!mf_method_run_counts(&m->run[i]))
            continue;
        const double succeeded = mf_evals_sum(e, "success_once"), trials = (double)mf_evals_trials(e);
        s.trials += mf_evals_trials(e);
        s.succeeded += (int64_t)succeeded;
        mf_evals_returns(e, &s.ret);
        mean[s.runs++] = (of == MF_RETURN ? mf_evals_sum(e, "return") : succeeded) / trials;
    }
    if (s.runs) {
        qsort(mean, (size_t)s.runs, sizeof *mean, by_value);
        s.median = (mean[s.runs / 2] + mean[(s.runs - 1) / 2]) / 2;
        s.low = mean[0];
        s.high = mean[s.runs - 1];
    }
    free(mean);
    return s;
}

enum mf_measure mf_methods_measure(const struct mf_methods *m)
{
    int64_t succeeded = 0, trials = 0;
    for (int i = 0; i < m->n; i++) {
        const struct mf_method_score s = mf_method_score(&m->of[i], m->n_seeds, MF_SUCCESS);
        succeeded += s.succeeded;
        trials += s.trials;
    }
    return mf_measure_of(trials, succeeded);
}

struct mf_paired mf_method_pair(const struct mf_method *first, const struct mf_method *m, int n_seeds,
                                enum mf_measure of)
{
    struct mf_pairs pairs = {0};
    for (int i = 0; i < n_seeds; i++)
        if (mf_method_run_counts(&first->run[i]) && mf_method_run_counts(&m->run[i]))
            mf_evals_pair(&first->run[i].eval, &m->run[i].eval, &pairs);
    return mf_pairs_compare(&pairs, of);
}
