#include "eval/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "flow/frames.h"
#include "stream/frame_json.h"

/* The spec as in a head, without the name of its environment, on which no result depends. */
static json_t *spec_json(const struct mf_policy_spec *spec)
{
    struct mf_policy_spec acted = *spec;
    acted.env[0] = 0;
    char *line;
    size_t n;
    struct mf_frame *head = mf_frame_new(MF_HEAD);
    mf_policy_spec_to_head(&acted, head);
    FILE *f = open_memstream(&line, &n);
    mf_frame_json(head, MF_ARRAYS_NONE, f);
    fclose(f);
    mf_frame_free(head);
    json_t *all = json_loadb(line, n, 0, NULL), *j = json_incref(json_object_get(all, "spec"));
    json_decref(all);
    free(line);
    return j;
}

json_t *mf_result_made(const struct mf_result *r)
{
    char digest[17];
    mf_policy_digest(r->policy, digest);
    json_t *j = json_pack("{s:s, s:s, s:o, s:o, s:i, s:I, s:i, s:i, s:{s:s, s:o, s:s}, s:o}", "digest", digest,
                          "weights", r->weights, "env", mf_json_text(r->env), "server", mf_json_text(r->server),
                          "max_steps", r->max_steps, "seed", (json_int_t)r->seed, "denoising_steps", r->policy->spec.K,
                          "n", r->n, "engine", "program", r->program, "device", mf_json_text(r->device), "precision",
                          r->precision, "policy", spec_json(&r->policy->spec));
    if (r->suite)
        json_object_set_new(j, "suite", mf_json_text(r->suite));
    if (r->tokenizer)
        json_object_set_new(j, "tokenizer", mf_json_text(r->tokenizer));
    return j;
}

static void add_rate(json_t *to, const char *name, struct mf_rate r)
{
    char low[40], high[40];
    snprintf(low, sizeof low, "%s_low", name);
    snprintf(high, sizeof high, "%s_high", name);
    json_object_set_new(to, name, mf_json_number(r.rate));
    json_object_set_new(to, low, mf_json_number(r.low));
    json_object_set_new(to, high, mf_json_number(r.high));
}

void mf_scores_json(json_t *to, const struct mf_score_sheet *s)
{
    add_rate(to, "success_once", s->success_once);
    add_rate(to, "success_at_end", s->success_at_end);
    add_rate(to, "return", (struct mf_rate){s->ret.mean, s->ret.low, s->ret.high});
    json_object_set_new(to, "return_std", mf_json_number(s->ret_std));
    json_object_set_new(to, "length", mf_json_number(s->length));
    json_object_set_new(to, "straightness", mf_json_number(s->straightness));
}

static json_t *tasks_json(const struct mf_result *r)
{
    json_t *all = json_array();
    for (int task = 0; r->tasks[task]; task++) {
        struct mf_score_sheet s;
        int n;
        mf_eval_task(r->trial, r->n, task, &s, &n);
        if (n == 0)
            continue;
        json_t *j = json_pack("{s:o, s:i}", "task", mf_json_text(r->tasks[task]), "n", n);
        mf_scores_json(j, &s);
        json_array_append_new(all, j);
    }
    return all;
}

static json_t *trials_json(const struct mf_trial *t, int n)
{
    json_t *once = json_array(), *at_end = json_array(), *ret = json_array(), *length = json_array(),
           *straightness = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(once, json_integer(t[i].success_once));
        json_array_append_new(at_end, json_integer(t[i].success_at_end));
        json_array_append_new(ret, mf_json_number((double)t[i].ret));
        json_array_append_new(length, json_integer(t[i].length));
        json_array_append_new(straightness, mf_json_number((double)t[i].straightness));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "success_once", once, "success_at_end", at_end, "return", ret,
                     "length", length, "straightness", straightness);
}

json_t *mf_result_json(const struct mf_result *r)
{
    struct mf_score_sheet s = mf_eval_sum(r->trial, r->n);
    json_t *j = json_pack("{s:o}", "checkpoint", mf_json_text(r->checkpoint)), *made = mf_result_made(r);
    json_object_update(j, made);
    json_decref(made);
    json_object_set_new(j, "iter", json_integer(r->policy->iter));
    json_object_set_new(j, "step", json_integer(r->policy->global_step));
    mf_scores_json(j, &s);
    json_t *trials = trials_json(r->trial, r->n), *task = r->tasks ? json_array() : NULL;
    for (int i = 0; i < r->n && task; i++)
        json_array_append_new(task, json_integer(r->trial[i].task));
    if (task) {
        json_object_set_new(trials, "task", task);
        json_object_set_new(j, "tasks", tasks_json(r));
    }
    json_object_set_new(j, "trials", trials);
    return j;
}

struct mf_frame *mf_result_metrics(const struct mf_result *r, double time)
{
    const struct mf_score_sheet sum = mf_eval_sum(r->trial, r->n), *s = &sum;
    const struct {
        const char *name;
        double value;
    } row[] = {{"values.eval/n", r->n},
               {"values.eval/success_once", s->success_once.rate},
               {"values.eval/success_once_low", s->success_once.low},
               {"values.eval/success_once_high", s->success_once.high},
               {"values.eval/success_at_end", s->success_at_end.rate},
               {"values.eval/success_at_end_low", s->success_at_end.low},
               {"values.eval/success_at_end_high", s->success_at_end.high},
               {"values.eval/return", s->ret.mean},
               {"values.eval/return_std", s->ret_std},
               {"values.eval/length", s->length},
               {"values.eval/straightness", s->straightness}};
    struct mf_frame *m = mf_frame_new(MF_METRICS);
    mf_frame_set_int(m, "iter", r->policy->iter);
    mf_frame_set_int(m, "step", r->policy->global_step);
    mf_frame_set_num(m, "time", time);
    mf_frame_set_str(m, "checkpoint", r->checkpoint);
    mf_frame_set_int(m, "denoising_steps", r->policy->spec.K);
    mf_frame_set_int(m, "seed", r->seed);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!isnan(row[i].value)) /* of results that were stored without it */
            mf_frame_set_num(m, row[i].name, row[i].value);
    return m;
}
