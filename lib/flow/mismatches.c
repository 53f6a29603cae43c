#include "flow/mismatches.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mf_mismatch(struct mf_mismatches *m, const char *fmt, ...)
{
    size_t at = strlen(m->text);
    char one[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(one, sizeof one, fmt, ap);
    va_end(ap);
    if (at + strlen(one) + 2 < sizeof m->text) {
        snprintf(m->text + at, sizeof m->text - at, "%s%s", at ? "; " : "", one);
        m->named++;
    }
    m->n++;
}

static void shape_text(char *text, size_t size, int rank, const size_t *dim)
{
    *text = '\0';
    for (int i = 0; i < rank; i++)
        snprintf(text + strlen(text), size - strlen(text), i ? ", %zu" : "%zu", dim[i]);
}

void mf_mismatch_shape(struct mf_mismatches *m, const char *name, int rank, const size_t *dim, int wanted_rank,
                       const size_t *wanted)
{
    char is[64], should[64];
    shape_text(is, sizeof is, rank, dim);
    shape_text(should, sizeof should, wanted_rank, wanted);
    mf_mismatch(m, "%s is (%s) and should be (%s)", name, is, should);
}

int mf_mismatches_end(const char *path, const struct mf_mismatches *m, struct mf_err *err)
{
    if (m->n == 0)
        return 0;
    if (m->n == m->named)
        return mf_err_set(err, MF_EFORMAT, "%.120s does not match the policy: %s", path, m->text);
    return mf_err_set(err, MF_EFORMAT, "%.100s does not match the policy: %s; and %d more", path, m->text,
                      m->n - m->named);
}
