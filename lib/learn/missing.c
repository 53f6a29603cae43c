#include "learn/missing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

void mf_missing_back(struct mf_missing *q, const char *src)
{
    for (int i = 0; i < q->n; i++)
        if (!strcmp(q->source[i].src, src))
            q->source[i--] = q->source[--q->n];
}

void mf_missing_left(struct mf_missing *q, const char *src, int64_t iter)
{
    mf_missing_back(q, src);
    q->source = mf_xrealloc(q->source, (size_t)q->n + 1, sizeof *q->source);
    struct mf_missed *m = &q->source[q->n++];
    *m = (struct mf_missed){.since = iter};
    snprintf(m->src, sizeof m->src, "%s", src);
}

/* "'b' since iteration 12, 'c' since iteration 15 and 3 more"; in_rounds: those alone that rounds lack. */
static int list(const struct mf_missing *q, bool in_rounds, char *text, size_t size)
{
    enum { NAMED = 4 };
    int n = 0;
    *text = '\0';
    for (int i = 0; i < q->n; i++) {
        const struct mf_missed *m = &q->source[i];
        const size_t at = strlen(text);
        if (in_rounds && !m->rounds)
            continue;
        if (n++ < NAMED)
            snprintf(text + at, size - at, "%s'%s' since iteration %lld", at ? ", " : "", m->src,
                     (long long)m->since + 1);
    }
    if (n > NAMED)
        snprintf(text + strlen(text), size - strlen(text), " and %d more", n - NAMED);
    return n;
}

int mf_missing_round(struct mf_missing *q, int64_t iter, int n, int64_t required, struct mf_err *err)
{
    char who[500];
    q->rounds++;
    for (int i = 0; i < q->n; i++)
        q->source[i].rounds += iter >= q->source[i].since;
    if (n >= required)
        return 0;
    list(q, false, who, sizeof who);
    return mf_err_set(err, MF_EIO,
                      "iteration %lld has parts of %d sources, fewer than collect.required=%lld%s%s%s: restart with "
                      "run.resume=auto once all can run",
                      (long long)iter + 1, n, (long long)required, *who ? " (missing: " : "", who, *who ? ")" : "");
}

void mf_missing_say(const struct mf_missing *q)
{
    char who[500];
    int most = 0;
    if (!list(q, true, who, sizeof who))
        return;
    for (int i = 0; i < q->n; i++)
        most = q->source[i].rounds > most ? q->source[i].rounds : most;
    mf_log(
        MF_LOG_WARN,
        "since this start, %d of %d rounds lacked a source that did not return: %s; collect.required=n makes that an "
        "error",
        most, q->rounds, who);
}

void mf_missing_release(struct mf_missing *q)
{
    free(q->source);
}
