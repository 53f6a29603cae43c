#include "plot/in_force.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "stream/frame_json.h"
#include "stream/json.h"

static const struct {
    const char *field, *key; /* of the head's spec */
} row[] = {
#define SPEC(key, name, ...) {#name, "policy." #key},
#define STEP(key, ...)       {#key, "policy." #key},
#define PROMPT               STEP
#define PICTURE              STEP
#define FPO                  STEP
#define STEER                STEP
#define SIZE                 STEP
#define WIDTHS               STEP
#include "conf/policy.inc"
    {"network", "policy.network"}, {"encoder", "policy.encoder"}};
enum { ROWS = sizeof row / sizeof *row };

static json_t *spec_of(const struct mf_frame *head)
{
    char *line;
    size_t n;
    FILE *to = open_memstream(&line, &n);
    mf_frame_json(head, MF_ARRAYS_NONE, to);
    fclose(to);
    json_t *all = json_loadb(line, n, 0, NULL), *spec = json_incref(json_object_get(all, "spec"));
    json_decref(all);
    free(line);
    return spec;
}

static void put(char **text, const char *key, const struct mf_conf *c)
{
    int k = 0;
    while (strcmp(mf_keys[k].name, key) != 0)
        k++;
    free(text[k]);
    text[k] = mf_conf_text(c, key) ? mf_xstrdup(mf_conf_text(c, key)) : NULL;
}

/* As the word KEY=VALUE would set it, so that equal values are equal texts. */
static void take(struct mf_conf *c, const char *key, const json_t *value, char **text)
{
    char *words = json_is_string(value) ? mf_xstrdup(json_string_value(value)) : json_dumps(value, MF_JSON_AS);
    char *word = mf_xcalloc(strlen(key) + strlen(words) + 2, 1);
    struct mf_err ignored;
    sprintf(word, "%s=%s", key, words);
    if (mf_conf_prefer(c, word, &ignored) == 0)
        put(text, key, c);
    free(word);
    free(words);
}

static void take_obs(struct mf_conf *c, json_t *obs, char **text)
{
    struct mf_names names = {.n = 0};
    const char *name;
    json_t *v;
    json_object_foreach(obs, name, v)
    {
        if (names.n < MF_LIST_MAX)
            snprintf(names.v[names.n++], sizeof *names.v, "%s", name);
    }
    if (names.n == 0)
        return;
    mf_conf_assume_names(c, "policy.obs_keys", &names);
    put(text, "policy.obs_keys", c);
}

void mf_in_force(const struct mf_frame *head, char **text)
{
    json_t *spec = spec_of(head);
    struct mf_conf *c = mf_conf_new();
    for (int i = 0; i < ROWS; i++) {
        const json_t *v = json_object_get(spec, row[i].field);
        if (v && !json_is_object(v))
            take(c, row[i].key, v, text);
    }
    take_obs(c, json_object_get(spec, "obs"), text);
    mf_conf_free(c);
    json_decref(spec);
}
