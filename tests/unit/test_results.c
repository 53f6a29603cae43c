/* A file of results: finds each result for its own settings alone, and survives a kill. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policies.h"
#include "eval/results.h"
#include "toy_result.h"

enum { N = 40 };
static char path[] = "/tmp/mf-results-XXXXXX";

static int count(void)
{
    struct mf_err err;
    struct mf_results *f;
    must(mf_results_open(&f, path, &err), &err);
    int n = mf_results_count(f);
    mf_results_close(f);
    return n;
}

static long size(void)
{
    struct stat st;
    return stat(path, &st) ? -1 : (long)st.st_size;
}

static void put(const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND);
    must(write(fd, text, strlen(text)) < 0, &(struct mf_err){.text = "write"});
    close(fd);
}

static void same_question(struct mf_policy *p, struct mf_policy *q)
{
    struct mf_err err;
    struct mf_results *f;
    static const char *const tasks[] = {"take it", "leave it", NULL};
    static struct mf_trial in[N], out[N];
    for (int i = 0; i < N; i++)
        in[i] = (struct mf_trial){(float)i / 7 - 2, (float)i / 9, i * 3, i % 3 == 0, i % 2, i % 2};
    in[5].ret = NAN; /* a sum of rewards that has no end */
    struct mf_result r = toy_result(p, 3, N, in);
    r.tasks = tasks;
    must(mf_results_open(&f, path, &err), &err);
    ok(!mf_results_find(f, &r), "nothing is found in a new file");
    must(mf_results_add(f, &r, &err), &err);
    ok(mf_results_find(f, &r) && mf_results_count(f) == 1, "an added result is found");
    mf_results_close(f);
    must(mf_results_open(&f, path, &err), &err);
    r.trial = out;
    ok(mf_results_find(f, &r) && !memcmp(in, out, sizeof in), "every trial comes back, bit for bit");
    r.checkpoint = "elsewhere.safetensors";
    ok(mf_results_find(f, &r), "the same policy in another file is the same");

    struct mf_result other[10];
    for (int i = 0; i < 10; i++)
        other[i] = r;
    other[0].seed = 4, other[1].n = N - 1, other[2].max_steps = 51, other[3].env = "lift", other[4].server = "cmd";
    other[5].weights = "ema", other[6].device = "ref", other[7].precision = "bf16", other[8].program = "test 2";
    other[9].policy = q; /* other weights */
    for (int i = 0; i < 10; i++)
        ok(!mf_results_find(f, &other[i]), "another question %d has no answer", i);
    p->spec.K++;
    ok(!mf_results_find(f, &r), "nor has another number of steps");
    p->spec.K--;
    p->spec.n_action_steps--;
    ok(!mf_results_find(f, &r), "nor another chunk");
    p->spec.n_action_steps++;
    ok(mf_results_find(f, &r), "and the first one still has");
    mf_results_close(f);
}

/* Trials of which one is no number are no answer. */
static void other_trials(struct mf_policy *p)
{
    struct mf_err err;
    struct mf_results *f;
    static struct mf_trial t[N];
    struct mf_result r = toy_result(p, 77, N, t);
    static const char *const columns[] = {"success_once", "success_at_end", "return", "length"};
    const long before = size();
    for (int i = 0; i < 4; i++) {
        json_t *line = mf_result_json(&r);
        json_array_set_new(json_object_get(json_object_get(line, "trials"), columns[i]), 3, json_string("1"));
        char *text = json_dumps(line, MF_JSON_AS);
        put(text), put("\n");
        free(text);
        json_decref(line);
        must(mf_results_open(&f, path, &err), &err);
        ok(!mf_results_find(f, &r), "a string among the numbers of %s is no answer", columns[i]);
        mf_results_close(f);
        ok(truncate(path, before) == 0, "(mended)");
    }
}

static void after_a_kill(struct mf_policy *p)
{
    struct mf_err err;
    struct mf_results *f;
    static struct mf_trial t[N];
    struct mf_result r = toy_result(p, 3, N, t);
    r.seed = 9;
    const long whole = size();
    put("{\"checkp");
    ok(count() == 1 && size() == whole, "a line that breaks off early is dropped");
    put("{\"checkpoint\": \"x\", \"digest\": \"0\", \"tri");
    ok(count() == 1 && size() == whole, "and one that breaks off later");
    must(mf_results_open(&f, path, &err), &err);
    put("{\"checkpoint\": \"x\", "); /* another program dies while we have it open */
    must(mf_results_add(f, &r, &err), &err);
    mf_results_close(f);
    ok(count() == 2, "a result after it is a line of its own");
}

/* Two evaluations of the same begin before either has its result. */
static void at_the_same_time(struct mf_policy *p)
{
    struct mf_err err;
    struct mf_results *a, *b = NULL;
    static struct mf_trial t[N];
    struct mf_result r = toy_result(p, 3, N, t), other = r;
    r.seed = 20, other.seed = 21;
    const int before = count();
    must(mf_results_open(&a, path, &err), &err);
    must(mf_results_open(&b, path, &err), &err);
    must(mf_results_add(a, &r, &err) || mf_results_add(b, &r, &err) || mf_results_add(b, &other, &err), &err);
    ok(mf_results_count(b) == before + 2 && !mf_results_find(a, &other), "the second learns of the first one's line");
    must(mf_results_add(a, &other, &err), &err);
    mf_results_close(a);
    mf_results_close(b);
    ok(count() == before + 2, "a result that two found is there once");
}

static void no_results(void)
{
    struct mf_err err;
    struct mf_results *f;
    const long before = size();
    put("[1]\n");
    ok(mf_results_open(&f, path, &err) == MF_EFORMAT && strstr(err.text, "line 3") != NULL, "%s", err.text);
    mf_results_close(f);
    ok(truncate(path, before) == 0, "(mended)");
    put("{\"a\": \n");
    ok(mf_results_open(&f, path, &err) == MF_EFORMAT && strstr(err.text, "line 3") != NULL, "%s", err.text);
    mf_results_close(f);
    ok(truncate(path, 0) == 0, "(emptied)");
    put("a letter to a friend");
    ok(mf_results_open(&f, path, &err) == MF_EFORMAT && size() == 20, "%s", err.text);
    mf_results_close(f);
    ok(mf_results_open(&f, "/dev/null", &err) == MF_EUSAGE, "%s", err.text);
    mf_results_close(f);
    ok(mf_results_open(&f, "/nowhere/x", &err) == MF_EIO, "%s", err.text);
    mf_results_close(f);
}

int main(void)
{
    struct mf_err err;
    struct mf_policy p, q;
    struct mf_policy_spec spec = small_spec("reflow_mlp");
    close(mkstemp(path));
    must(mf_policy_init(&p, &spec, &err) || mf_policy_init(&q, &spec, &err), &err);
    mf_policy_fresh(&p, 3);
    mf_policy_fresh(&q, 4);
    same_question(&p, &q);
    other_trials(&p);
    after_a_kill(&p);
    no_results();
    ok(truncate(path, 0) == 0, "(emptied)");
    at_the_same_time(&p);
    mf_policy_release(&p);
    mf_policy_release(&q);
    unlink(path);
    return done();
}
