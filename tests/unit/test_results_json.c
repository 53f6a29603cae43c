/* The document of results, which is whole or not there, and a result as metrics. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policies.h"
#include "eval/results_json.h"
#include "toy_result.h"

static char path[64], part[80];
static struct mf_err err;
static struct mf_trial trial[4] = {{2, .5f, 10, true, true, 0},
                                   {1, .25f, 20, true, false, 0},
                                   {0, 0, 30, false, false, 0},
                                   {1, .25f, 40, true, true, 0}};

static double number(const json_t *j, int i, const char *key)
{
    return json_number_value(json_object_get(json_array_get(json_object_get(j, "results"), (size_t)i), key));
}

static void documents(struct mf_policy *p)
{
    static const int64_t seeds[] = {7, 8};
    struct mf_results_json j;
    struct mf_result r = toy_result(p, 7, 4, trial), s = toy_result(p, 8, 4, trial);
    must(mf_results_json_open(&j, path, "to\"y", 2, seeds, &err), &err);
    must(mf_results_json_add(&j, &r, &err) || mf_results_json_add(&j, &s, &err), &err);
    ok(access(path, F_OK) < 0, "it is not there before it is whole");
    ok(mf_results_json_close(&j, true, &err) == 0 && access(part, F_OK) < 0, "closed, it takes its name");
    json_t *got = json_load_file(path, 0, NULL);
    ok(got && !strcmp(json_string_value(json_object_get(got, "env")), "to\"y"), "it is JSON, of the environment");
    ok(json_array_size(json_object_get(got, "seeds")) == 2 && !json_object_get(got, "seed"), "of several seeds");
    ok(json_array_size(json_object_get(got, "results")) == 2 && number(got, 0, "seed") == 7 &&
           number(got, 1, "seed") == 8,
       "with a result for each, in the order given");
    json_decref(got);

    must(mf_results_json_open(&j, path, "toy", 1, seeds, &err), &err);
    must(mf_results_json_add(&j, &r, &err), &err);
    ok(mf_results_json_close(&j, false, &err) == 0 && access(part, F_OK) < 0, "one that is given up leaves nothing");
    got = json_load_file(path, 0, NULL);
    ok(json_array_size(json_object_get(got, "results")) == 2, "and the old file stays");
    json_decref(got);
    must(mf_results_json_open(&j, path, "toy", 1, seeds, &err) || mf_results_json_close(&j, true, &err), &err);
    got = json_load_file(path, 0, NULL);
    ok(json_integer_value(json_object_get(got, "seed")) == 7 && json_array_size(json_object_get(got, "results")) == 0,
       "one seed is a number, and no results an empty list");
    json_decref(got);
    ok(mf_results_json_open(&j, "/dev/null", "toy", 1, seeds, &err) == MF_EUSAGE, "%s", err.text);
    mf_results_json_close(&j, false, &err);
    j = (struct mf_results_json){0};
    ok(mf_results_json_add(&j, &r, &err) == 0 && mf_results_json_close(&j, true, &err) == 0, "without one, nothing");
}

/* NaN where the frame has none. */
static double value(const struct mf_frame *m, const char *name)
{
    double v = NAN;
    (void)mf_frame_get_num(m, name, &v, &err);
    return v;
}

static void metrics(struct mf_policy *p)
{
    struct mf_result r = toy_result(p, 7, 4, trial);
    p->iter = 3, p->global_step = 900;
    struct mf_frame *m = mf_result_metrics(&r, 1.5);
    ok(mf_frame_kind(m) == MF_METRICS && value(m, "iter") == 3 && value(m, "step") == 900 && value(m, "seed") == 7 &&
           value(m, "denoising_steps") == p->spec.K && value(m, "time") == 1.5,
       "metrics say of which policy, seed and steps they are");
    ok(value(m, "values.eval/n") == 4 && value(m, "values.eval/success_once") == .75 &&
           value(m, "values.eval/success_at_end") == .5 && value(m, "values.eval/return") == 1 &&
           value(m, "values.eval/length") == 25 && value(m, "values.eval/straightness") == .25,
       "and the trials' statistics");
    ok(value(m, "values.eval/success_once_low") == mf_wilson(3, 4).low &&
           value(m, "values.eval/success_once_high") == mf_wilson(3, 4).high,
       "with Wilson's interval");
    mf_frame_free(m);
}

int main(void)
{
    struct mf_policy p;
    struct mf_policy_spec spec = small_spec("reflow_mlp");
    char dir[] = "/tmp/mf-document-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/all.json", dir);
    snprintf(part, sizeof part, "%s.part", path);
    must(mf_policy_init(&p, &spec, &err), &err);
    documents(&p);
    metrics(&p);
    mf_policy_release(&p);
    unlink(path);
    return rmdir(dir) || done();
}
