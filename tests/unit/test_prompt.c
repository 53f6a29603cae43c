/* Prompts of pi0.5: against SentencePiece and numpy (tests/reference/tokens.py), and what does not fit. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "lang/prompt.h"
#include "lang/prompter.h"
#include "tap.h"

enum { L = 200 };

static struct mf_tokenizer t;
static struct mf_err err;

static bool answers(const json_t *row)
{
    const json_t *want = json_object_get(row, "ids"), *list = json_object_get(row, "state");
    const int n = (int)json_array_size(want), n_state = (int)json_array_size(list);
    float state[MF_PROMPT_STATE_MAX];
    int32_t ids[L];
    for (int i = 0; i < n_state; i++)
        state[i] = (float)json_number_value(json_array_get(list, (size_t)i));
    int got = mf_prompt(&t, json_string_value(json_object_get(row, "task")), n_state, state, L, ids, &err);
    for (int i = 0; i < L && got == n; i++)
        if (ids[i] != (i < n ? (int32_t)json_integer_value(json_array_get(want, (size_t)i)) : 0))
            return false;
    return got == n;
}

static void test_answers(void)
{
    json_t *all = json_load_file("tests/fixtures/tokens.json", 0, NULL), *rows = json_object_get(all, "prompts"), *row;
    size_t i;
    json_array_foreach(rows, i, row) ok(answers(row), "prompt %zu of the reference, %s its state", i,
                                        json_object_get(row, "state") ? "with" : "without");
    ok(json_array_size(rows) >= 6, "there are prompts");
    json_decref(all);
}

static void test_long(void)
{
    static const char task[] = "push the red block into the left bin";
    int32_t all[L], some[9] = {[8] = -1};
    char huge[MF_TASK_MAX + 1];
    const int n = mf_prompt(&t, task, 0, NULL, L, all, &err), m = mf_prompt(&t, task, 0, NULL, 8, some, &err);
    ok(n == m && n > 8 && !memcmp(all, some, 8 * sizeof *all) && some[8] == -1, "a long prompt is cut, and counted");
    ok(mf_prompt(&t, task, 0, NULL, 0, some, &err) == n, "nothing is written where there is no room");
    memset(huge, 'a', MF_TASK_MAX);
    huge[MF_TASK_MAX] = '\0';
    ok(mf_prompt(&t, huge, 0, NULL, L, all, &err) == MF_EUSAGE && strstr(err.text, "1024 bytes"), "%s", err.text);
    ok(mf_prompt(&t, task, MF_PROMPT_STATE_MAX + 1, NULL, L, all, &err) == MF_EUSAGE, "%s", err.text);
    ok(mf_prompt(&t, task, 1, &(float){NAN}, L, all, &err) > 0, "a state of NaN has a bin");
}

static void test_tokens(void)
{
    static const char task[] = "push the red block into the left bin";
    struct mf_prompter p;
    float tokens[9] = {[8] = -1};
    int32_t ids[8];
    mf_prompter_open(&p, "tests/fixtures/tokenizer.model", &err);
    bool same = mf_prompter_put(&p, task, 0, NULL, 8, tokens, &err) == 0 && p.cut && tokens[8] == -1;
    mf_prompt(&t, task, 0, NULL, 8, ids, &err);
    for (int i = 0; i < 8; i++)
        same &= tokens[i] == (float)ids[i];
    ok(same, "tokens that do not fit are cut, which is logged once");
    ok(mf_prompter_put(&p, task, MF_PROMPT_STATE_MAX + 1, NULL, 8, tokens, &err) == MF_EUSAGE, "%s", err.text);
    ok(mf_prompter_put(&p, task, 0, NULL, MF_PROMPT_MAX + 1, tokens, &err) == MF_EUSAGE, "%s", err.text);
    mf_prompter_close(&p);
}

int main(void)
{
    if (!ok(mf_tokenizer_open(&t, "tests/fixtures/tokenizer.model", &err) == 0, "a tokenizer"))
        printf("# %s\n", err.text);
    test_answers();
    test_long();
    test_tokens();
    mf_tokenizer_close(&t);
    return done();
}
