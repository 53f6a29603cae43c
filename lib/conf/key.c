#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_priv.h"
#include "conf/parse.h"

enum { NAME_MAX_ = 128 };

/* Aliases, from published commands and files. */
static const char *const alias[][2] = {
    {"env", "env.name"},
    {"normalizer", "ckpt.normalizer"},
    {"task.dataset_path", "clone.dataset"},
    {"task.env_runner.max_steps", "env.max_steps"},
    {"task.env_runner.num_episodes", "eval.num_episodes"},
    {"task.env_runner.env_meta.env_name", "env.name"},
    {"task.env_runner.env_config.env_name", "env.name"},
};
enum { ALIASES = sizeof alias / sizeof *alias };

int mf_key_find(const char *name)
{
    for (int i = 0; i < ALIASES; i++)
        if (!strcmp(name, alias[i][0]))
            name = alias[i][1];
    for (int i = 0; mf_keys[i].name; i++)
        if (*name == *mf_keys[i].name && !strcmp(name, mf_keys[i].name))
            return i;
    return -1;
}

bool mf_key_is_group(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; mf_keys[i].name; i++)
        if (!strncmp(mf_keys[i].name, name, n) && mf_keys[i].name[n] == '.')
            return true;
    return false;
}

/* Levenshtein distance over at most NAME_MAX_ characters, ignoring case. */
static int distance(const char *a, const char *b)
{
    int row[NAME_MAX_ + 1], n = (int)strnlen(b, NAME_MAX_);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i] && i < NAME_MAX_; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (tolower((unsigned char)a[i]) != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[n];
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The group may be missing, or another one where the last part is nearly right. */
static int far_from(const char *name, const char *key)
{
    const char *last = last_part(name);
    const int whole = distance(name, key), bare = 1 + distance(name, last_part(key)),
              other = distance(last, last_part(key));
    const int least = bare < whole ? bare : whole;
    return 1 + other < least && 3 * other <= (int)strlen(last) ? 1 + other : least;
}

void mf_key_nearest(const char *name, char *keys, size_t size)
{
    const char *best = "";
    int least = 1 << 20;
    for (int i = 0; mf_keys[i].name; i++) {
        const int d = far_from(name, mf_keys[i].name);
        if (d < least)
            least = d, best = mf_keys[i].name;
    }
    snprintf(keys, size, "'%s'", best);
    for (int i = 0; mf_keys[i].name; i++) {
        const size_t n = strlen(keys);
        if (mf_keys[i].name != best && !strcmp(last_part(mf_keys[i].name), last_part(best)) &&
            far_from(name, mf_keys[i].name) == least)
            snprintf(keys + n, size - n, " or '%s'", mf_keys[i].name);
    }
}

int mf_key_default(const char *name, struct mf_item **to)
{
    const int i = mf_key_find(name);
    const char *text = i < 0 ? NULL : mf_keys[i].def;
    struct mf_err err;
    if (i >= 0 && (mf_keys[i].type == MF_INTS || mf_keys[i].type == MF_NAMES))
        return mf_word_value(to, text, &err);
    if (i >= 0)
        *to = mf_item_scalar(text ? text : "", false, MF_YAML);
    return 0;
}

/* The key that a group's name alone stands for, without the group. A value of another group gets a name too, so that
 * references can find it. */
static const char *short_for(const char *group)
{
    const size_t n = strlen(group);
    for (int i = 0; i < ALIASES; i++)
        if (!strcmp(group, alias[i][0]) && !strncmp(alias[i][1], group, n) && alias[i][1][n] == '.')
            return alias[i][1] + n + 1;
    return "_value_";
}

void mf_key_spell_out(struct mf_item *root)
{
    for (int i = 0; i < root->n; i++) {
        struct mf_item *x = root->child[i];
        if (x->is == MF_IS_MAP || x->is == MF_IS_NULL || !mf_key_is_group(root->name[i]))
            continue;
        struct mf_item *map = mf_item_map(), *copy = mf_item_copy(x);
        mf_item_stamp(map, x->reading);
        copy->brief = true;
        mf_item_put(map, short_for(root->name[i]), copy);
        mf_item_put(root, root->name[i], map);
    }
}
