#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/home.h"
#include "base/layout.h"
#include "base/mem.h"
#include "base/name.h"
#include "base/text.h"
#include "conf/item.h"

/* Is x in "[0,1)"? A missing end excludes infinity, "[0,inf]" includes it. NaN is in no range. */
static bool in_range(const char *range, double x)
{
    if (!range)
        return true;
    char *end;
    const char *comma = strchr(range, ',');
    double low = range[1] == ',' ? -(double)INFINITY : strtod(range + 1, NULL);
    double high = strtod(comma + 1, &end);
    if (end == comma + 1)
        return isfinite(x) && (range[0] == '(' ? x > low : x >= low);
    return (range[0] == '(' ? x > low : x >= low) && (*end == ')' ? x < high : x <= high);
}

static int bad_range(const struct mf_key *key, struct mf_err *err)
{
    return mf_err_set(err, MF_EUSAGE, "must be in %s", key->words);
}

static int take_int(int64_t *to, const struct mf_key *key, const struct mf_item *s, struct mf_err *err)
{
    if (s->is == MF_IS_INT)
        *to = s->i;
    else if (s->is == MF_IS_FLOAT && fabs(s->f) < 9e15 && s->f == floor(s->f))
        *to = (int64_t)s->f;
    else
        return mf_err_set(err, MF_EUSAGE,
                          key->type == MF_INTS ? "must be a list of integers, such as [256,256]"
                                               : "must be an integer");
    return in_range(key->words, (double)*to) ? 0 : bad_range(key, err);
}

static int take_choice(int *to, const struct mf_key *key, const char *text, struct mf_err *err)
{
    const int i = mf_word_find(key->words, text);
    *to = i < 0 ? 0 : i;
    return i < 0 ? mf_err_set(err, MF_EUSAGE, "must be one of %s", key->words) : 0;
}

/* Nothing is null, where the key has no default that must be something. */
static int take_text(char **to, const struct mf_key *key, const struct mf_item *s, struct mf_err *err)
{
    if (s->is == MF_IS_NULL ? !!key->def : !*s->text)
        return mf_err_set(err, MF_EUSAGE, "must not be empty: %s",
                          key->def ? "give a value, or leave it out" : "give a value, or null for none");
    const char *is = key->words ? key->words : "", *fault;
    *to = NULL;
    if (s->is == MF_IS_NULL)
        return 0;
    if (!strcmp(is, "name") && (fault = mf_name_fault(s->text)))
        return mf_err_set(err, MF_EUSAGE, "must be a name, not a path: it %s", fault);
    *to = !strcmp(is, "path")      ? mf_home_path(s->text, err)
          : !strcmp(is, "address") ? mf_home_address(s->text, err)
                                   : mf_xstrdup(s->text);
    return *to ? 0 : err->code;
}

static int take_name(char to[64], const struct mf_item *s, struct mf_err *err)
{
    const char *fault = mf_obs_name_fault(s->text ? s->text : "");
    if (fault)
        return mf_err_set(err, MF_EUSAGE, "must be a list of names, and one of them %s", fault);
    strcpy(to, s->text);
    return 0;
}

/* Of the first value that is there twice. */
static int check_once(const union mf_typed *v, const struct mf_key *key, struct mf_err *err)
{
    const bool ints = key->type == MF_INTS;
    for (int i = 0; i < (ints ? v->ints.n : v->names.n); i++)
        for (int k = 0; k < i; k++)
            if (ints && v->ints.v[i] == v->ints.v[k])
                return mf_err_set(err, MF_EUSAGE, "has %lld twice: give each value once", (long long)v->ints.v[i]);
            else if (!ints && !strcmp(v->names.v[i], v->names.v[k]))
                return mf_err_set(err, MF_EUSAGE, "has '%s' twice: give each name once", v->names.v[i]);
    return 0;
}

static int take_list(union mf_typed *to, const struct mf_key *key, const struct mf_item *list, struct mf_err *err)
{
    const bool ints = key->type == MF_INTS;
    int rc = 0;
    if (ints && (list->is == MF_IS_INT || list->is == MF_IS_FLOAT)) { /* a list of one item */
        to->ints = (struct mf_ints){.n = 1};
        return take_int(&to->ints.v[0], key, list, err);
    }
    if (list->is != MF_IS_LIST)
        return mf_err_set(err, MF_EUSAGE, "must be a list of %s, such as %s", ints ? "integers" : "names",
                          ints ? "[256,256]" : "[object,point_cloud]");
    if (list->n > MF_LIST_MAX)
        return mf_err_set(err, MF_EUSAGE, "must be a list of at most %d items", MF_LIST_MAX);
    if (ints)
        to->ints = (struct mf_ints){.n = list->n};
    else
        to->names = (struct mf_names){.n = list->n};
    for (int i = 0; i < list->n && rc == 0; i++)
        rc = ints ? take_int(&to->ints.v[i], key, list->child[i], err) : take_name(to->names.v[i], list->child[i], err);
    return rc || !key->words || !strstr(key->words, "each once") ? rc : check_once(to, key, err);
}

int mf_typed_take(union mf_typed *to, const struct mf_key *key, const struct mf_item *s, struct mf_err *err)
{
    if (key->type == MF_INTS || key->type == MF_NAMES)
        return take_list(to, key, s, err);
    if (s->is == MF_IS_LIST || s->is == MF_IS_MAP)
        return mf_err_set(err, MF_EUSAGE, "must be one value, not a %s", s->is == MF_IS_MAP ? "map" : "list");
    switch (key->type) {
    case MF_BOOL:
        to->b = s->b;
        return s->is == MF_IS_BOOL ? 0 : mf_err_set(err, MF_EUSAGE, "must be true or false");
    case MF_INT:
        return take_int(&to->i, key, s, err);
    case MF_FLOAT:
        to->f = s->f;
        if (s->is != MF_IS_INT && s->is != MF_IS_FLOAT)
            return mf_err_set(err, MF_EUSAGE, "must be a number");
        return in_range(key->words, to->f) ? 0 : bad_range(key, err);
    case MF_CHOICE:
        return take_choice(&to->choice, key, s->text, err);
    default:
        return take_text(&to->s, key, s, err);
    }
}

static char *names_text(const struct mf_names *names)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return mf_xstrdup("[]");
    putc('[', to);
    for (int i = 0; i < names->n; i++) {
        fputs(i ? ", " : "", to);
        mf_value_print(names->v[i], to);
    }
    putc(']', to);
    fclose(to);
    return text;
}

char *mf_typed_text(const union mf_typed *v, const struct mf_key *key)
{
    char text[66 * MF_LIST_MAX] = "";
    switch (key->type) {
    case MF_BOOL:
        return mf_xstrdup(v->b ? "true" : "false");
    case MF_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->i);
        break;
    case MF_FLOAT:
        mf_float_text(text, sizeof text, v->f);
        break;
    case MF_CHOICE: {
        int n;
        const char *word = mf_word_at(key->words, v->choice, &n);
        snprintf(text, sizeof text, "%.*s", n, word);
        break;
    }
    case MF_INTS: {
        int n = snprintf(text, sizeof text, "[");
        for (int i = 0; i < v->ints.n; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? ", " : "", (long long)v->ints.v[i]);
        snprintf(text + n, sizeof text - (size_t)n, "]");
        break;
    }
    case MF_NAMES:
        return names_text(&v->names);
    default:
        return v->s ? mf_xstrdup(v->s) : NULL;
    }
    return mf_xstrdup(text);
}
