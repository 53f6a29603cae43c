#include "stream/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* A copy for free(). */
static char *valid_utf8(const char *s)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    size_t left = strlen(s), n;
    char *valid = mf_xcalloc(left + 1, sizeof replacement), *to = valid;
    for (; left; s += n, left -= n)
        if ((n = mf_utf8(s, left)))
            to = mempcpy(to, s, n);
        else
            to = stpcpy(to, replacement), n = 1;
    return valid;
}

json_t *mf_json_text(const char *s)
{
    if (!s)
        return json_null();
    char *valid = valid_utf8(s);
    json_t *j = json_string(valid);
    free(valid);
    return j;
}

json_t *mf_json_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

double mf_json_number_of(const json_t *j)
{
    return json_is_number(j) ? json_number_value(j) : NAN;
}

json_t *mf_json_sizes(const size_t *v, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)v[i]));
    return list;
}

void mf_json_set(json_t *object, const char *key, json_t *value)
{
    char *valid = valid_utf8(key);
    json_object_set_new(object, valid, value);
    free(valid);
}

int mf_json_write(json_t *j, const char *end, FILE *to, struct mf_err *err)
{
    const bool failed = json_dumpf(j, to, MF_JSON_AS) || fputs(end, to) < 0;
    json_decref(j);
    return failed ? mf_err_errno(err, "cannot write JSON") : 0;
}
