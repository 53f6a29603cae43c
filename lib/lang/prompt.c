#include "lang/prompt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BIN_BYTES = 5 }; /* " -1", " 255" */

static const char white[] = " \t\n\r\v\f\x1c\x1d\x1e\x1f";

static int clean(const char *task, char to[MF_TASK_MAX], struct mf_err *err)
{
    task += strspn(task, white);
    size_t n = strlen(task);
    while (n && strchr(white, task[n - 1]))
        n--;
    if (n >= MF_TASK_MAX)
        return mf_err_set(err, MF_EUSAGE, "the task '%.40s..' has %zu bytes; %d are possible", task, n,
                          MF_TASK_MAX - 1);
    for (size_t i = 0; i < n; i++)
        to[i] = task[i] == '_' || task[i] == '\n' ? ' ' : task[i];
    to[n] = '\0';
    return 0;
}

/* The number of edges -1 + k/128, k = 0..255, that are not above x, less one. */
static int bin(float x)
{
    return (int)floor(fmin(fmax(((double)x + 1) * 128, -1), 255));
}

static void write_state(char *text, const char *task, int n, const float *state)
{
    text += sprintf(text, "Task: %s, State:", task);
    for (int i = 0; i < n; i++)
        text += sprintf(text, " %d", bin(state[i]));
    strcpy(text, ";\nAction: ");
}

int mf_prompt(const struct mf_tokenizer *t, const char *task, int n, const float *state, int length, int32_t *ids,
              struct mf_err *err)
{
    char words[MF_TASK_MAX], text[MF_TASK_MAX + BIN_BYTES * MF_PROMPT_STATE_MAX + sizeof "Task: , State:;\nAction: "];
    int rc = clean(task, words, err);
    if (rc)
        return rc;
    if (n > MF_PROMPT_STATE_MAX)
        return mf_err_set(err, MF_EUSAGE, "a state of %d numbers in a prompt; %d are possible", n, MF_PROMPT_STATE_MAX);
    if (n > 0)
        write_state(text, words, n, state);
    memset(ids, 0, (size_t)length * sizeof *ids);
    int at = 0;
    if (at < length)
        ids[at] = t->bos;
    at++;
    for (int part = 0; part < (n > 0 ? 1 : 2); part++) {
        const int left = length > at ? length - at : 0;
        rc = mf_tokenizer_encode(t, n > 0 ? text : part ? "\n" : words, ids + (left ? at : 0), left, err);
        if (rc < 0)
            return rc;
        at += rc;
    }
    return at;
}
