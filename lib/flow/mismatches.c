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

int mf_mismatches_end(const char *path, const struct mf_mismatches *m, struct mf_err *err)
{
    if (m->n == 0)
        return 0;
    if (m->n == m->named)
        return mf_err_set(err, MF_EFORMAT, "%.120s does not match the policy: %s", path, m->text);
    return mf_err_set(err, MF_EFORMAT, "%.100s does not match the policy: %s; and %d more", path, m->text,
                      m->n - m->named);
}
