#include "stage/senders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/head.h"

struct mf_sender *mf_senders_named(struct mf_senders *q, const char *src)
{
    for (int i = 0; i < q->n; i++)
        if (!strcmp(q->s[i]->src, src))
            return q->s[i];
    return NULL;
}

int mf_senders_from(struct mf_senders *q, int from, struct mf_sender **one)
{
    int n = 0;
    for (int i = 0; i < q->n; i++)
        if (q->s[i]->from == from)
            *one = q->s[i], n++;
    return n;
}

/* Makes room for another name. Rejected sources are forgotten first. */
static struct mf_sender *a_free_one(struct mf_senders *q)
{
    for (int i = 0; q->n == MF_SENDERS_MAX && i < q->n; i++)
        if (*q->s[i]->why)
            return q->s[i];
    if (q->n == MF_SENDERS_MAX)
        return NULL;
    if (q->n == q->room) {
        q->room = q->room ? 2 * q->room : 16;
        q->s = mf_xrealloc(q->s, (size_t)q->room, sizeof(struct mf_sender *));
    }
    return q->s[q->n++] = mf_xcalloc(1, sizeof **q->s);
}

void mf_sender_refuse(struct mf_sender *s, const char *why)
{
    snprintf(s->why, sizeof s->why, "%.*s", MF_WHY_MAX - 1, why);
}

void mf_senders_withdraw(struct mf_senders *q, struct mf_sender *s, const char *why)
{
    mf_sender_refuse(s, why);
    s->from = -1;
    s->active = false;
    s->lost = true;
    mf_frame_free(q->first);
    q->first = NULL;
}

int mf_senders_active(const struct mf_senders *q)
{
    int n = 0;
    for (int i = 0; i < q->n; i++)
        n += q->s[i]->active;
    return n;
}

void mf_senders_release(struct mf_senders *q)
{
    mf_frame_free(q->first);
    for (int i = 0; i < q->n; i++)
        free(q->s[i]);
    free(q->s);
}

/* Sources may differ only in name, seed of their environments, and folder. */
static int agree(const struct mf_senders *q, const struct mf_frame *head, const char *src, struct mf_err *err)
{
    static const char *const fields[] = {"seed", "max_lag", "steps"};
    const char *first = "";
    struct mf_err ignored;
    (void)mf_frame_get_str(q->first, "src", &first, &ignored);
    for (int i = 0; i < 3; i++)
        if (!mf_frame_same(q->first, head, fields[i]))
            return mf_err_set(err, MF_EFORMAT, "source '%s' has another %s than the first source, '%s'", src, fields[i],
                              first);
    for (int i = 0; i < mf_frame_count(q->first, "spec"); i++) {
        char path[MF_NAME_MAX];
        const char *key = mf_frame_key(q->first, "spec", i);
        snprintf(path, sizeof path, "spec.%s", key ? key : "?");
        if (!mf_frame_same(q->first, head, path))
            return mf_err_set(err, MF_EFORMAT, "source '%s' has another %s than the first source, '%s'", src, path,
                              first);
    }
    return 0;
}

/* May a head of this name come now? *again: its source starts over before its end. */
static int may_begin(struct mf_port *in, const struct mf_sender *s, bool *again, struct mf_err *err)
{
    const bool socket = mf_port_is_socket(in);
    if (!s)
        return 0;
    if (!s->active)
        return s->lost || s->stopped ? 0
               : socket              ? mf_err_set(err, MF_EFORMAT, "source '%s' has ended", s->src)
                                     : mf_err_set(err, MF_EFORMAT, "it follows the end frame frame");
    if (!socket)
        return *again ? 0 : mf_err_set(err, MF_EFORMAT, "a second head");
    if (s->from != mf_port_from(in) && s->from >= 0 && mf_port_is_here(in, s->from))
        return mf_err_set(err, MF_EFORMAT,
                          "a source named '%s' is already connected: give each collector its own collect.src", s->src);
    *again = true;
    return 0;
}

static int begin(struct mf_senders *q, struct mf_port *in, struct mf_frame *head, struct mf_err *err)
{
    const char *src = "";
    bool again = false;
    int rc = mf_head_check(head, err);
    if (rc || (mf_frame_has(head, "src") && (rc = mf_frame_get_str(head, "src", &src, err))) ||
        (mf_frame_has(head, "again") && (rc = mf_frame_get_bool(head, "again", &again, err))))
        return rc;
    struct mf_sender *s = mf_senders_named(q, src);
    if (strlen(src) >= MF_SRC_MAX)
        return mf_err_set(err, MF_EFORMAT, "the source's name '%.80s' is longer than %d bytes", src, MF_SRC_MAX - 1);
    if ((rc = may_begin(in, s, &again, err)) || (q->first && (rc = agree(q, head, src, err))))
        return rc;
    if (!q->first)
        q->first = mf_frame_keep(head);
    if (again && mf_port_is_socket(in))
        mf_frame_set_bool(head, "again", true);
    if (!s && !(s = a_free_one(q)))
        return mf_err_set(err, MF_EFORMAT, "more than %d sources", MF_SENDERS_MAX);
    *s = (struct mf_sender){.from = mf_port_is_socket(in) ? mf_port_from(in) : -1, .active = true};
    snprintf(s->src, sizeof s->src, "%s", src);
    q->at = s;
    return 0;
}

static int in_place(const struct mf_sender *s, struct mf_err *err)
{
    return s->active ? 0 : *s->why ? 1 : mf_err_set(err, MF_EFORMAT, "it follows the end frame frame");
}

/* On a pipe: by the name in the frame, if there are several. */
static int in_a_pipe(struct mf_senders *q, const struct mf_frame *f, struct mf_err *err)
{
    const char *src;
    if (q->n == 1) {
        q->at = q->s[0];
    } else if (mf_frame_has(f, "src")) {
        int rc = mf_frame_get_str(f, "src", &src, err);
        if (rc)
            return rc;
        if (!(q->at = mf_senders_named(q, src)))
            return mf_err_set(err, MF_EFORMAT, "%s of source '%s', which sent no head", mf_kind_name(mf_frame_kind(f)),
                              src);
    }
    return in_place(q->at, err);
}

/* On a socket: by its writer, and by the name in the frame if that writer forwards several sources. A frame without a
 * name gets its source's, for the stages behind the next pipe. */
static int in_a_socket(struct mf_senders *q, struct mf_port *in, struct mf_frame *f, struct mf_err *err)
{
    struct mf_sender *s = NULL;
    const int from = mf_port_from(in), n = mf_senders_from(q, from, &s);
    const enum mf_kind kind = mf_frame_kind(f);
    const char *src;
    if (kind == MF_FAILED)
        return mf_err_set(err, MF_EFORMAT, "it reports that its program failed");
    if (!n)
        return mf_err_set(err, MF_EFORMAT, "a stream begins with a head, not with %s", mf_kind_name(kind));
    if (mf_frame_has(f, "src")) {
        int rc = mf_frame_get_str(f, "src", &src, err);
        struct mf_sender *named = rc ? NULL : mf_senders_named(q, src);
        if (rc == 0 && (!named || named->from != from))
            rc = mf_err_set(err, MF_EFORMAT, "%s of source '%s' from source '%s'", mf_kind_name(kind), src, s->src);
        if (rc)
            return rc;
        s = named;
    } else if (n > 1) {
        return mf_err_set(err, MF_EFORMAT, "%s without src, from a program that forwards %d sources",
                          mf_kind_name(kind), n);
    } else if (*s->src && kind != MF_METRICS) {
        mf_frame_set_str(f, "src", s->src);
    }
    q->at = s;
    return in_place(s, err);
}

int mf_senders_take(struct mf_senders *q, struct mf_port *in, struct mf_frame *f, struct mf_err *err)
{
    const enum mf_kind kind = mf_frame_kind(f);
    if (kind == MF_HEAD)
        return begin(q, in, f, err);
    if (mf_port_is_socket(in))
        return in_a_socket(q, in, f, err);
    if (q->n == 0)
        return mf_err_set(err, MF_EFORMAT, "a stream begins with a head, not with %s", mf_kind_name(kind));
    return in_a_pipe(q, f, err);
}
