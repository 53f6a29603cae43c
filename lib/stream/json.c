#include "stream/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

enum { VALUES_MAX = 2 << 20 };

/* A value of JSON, two bytes long, takes up to two hundred bytes of memory: they are counted before any is made. */
static bool too_many_values(const char *p, size_t n)
{
    size_t values = 0;
    for (size_t i = 0; i < n; i++)
        values += p[i] == ',' || p[i] == ':' || p[i] == '[' || p[i] == '{';
    return values > VALUES_MAX;
}

int mf_json_parse(json_t **j, const char *bytes, size_t n, struct mf_err *err)
{
    json_error_t why;
    *j = NULL;
    if (too_many_values(bytes, n))
        return mf_err_set(err, MF_EFORMAT, "it holds more than the %d values that are read", VALUES_MAX);
    *j = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &why);
    return *j ? 0 : mf_err_set(err, MF_EFORMAT, "%s, at byte %d of it", why.text, why.position);
}

int mf_json_open(json_t **j, const char *path, struct mf_err *err)
{
    void *map;
    size_t size;
    int rc = mf_map_file(path, "JSON", &map, &size, err);
    if (rc)
        return rc;
    rc = mf_json_parse(j, map, size, err);
    munmap(map, size);
    return rc ? mf_err_at(err, "%s", path) : 0;
}

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
