/* source.h - a collector's rounds and the learner that consumes them.
 *
 * After its head a source joins: it gets the newest policy, and the state of the previous source of its name. From then
 * on iteration i requests version max(0, i - max_lag) over the policy edge. The reply also says which version is saved.
 * Rounds from there on are kept, as the learner may be killed and restart there: to a new reader the source sends its
 * head, joins again, and repeats the same requests from the version that it gets, with the rounds that it has made.
 */
#ifndef MF_LEARN_SOURCE_H
#define MF_LEARN_SOURCE_H

#include "base/err.h"
#include "flow/policy.h"
#include "rl/actor.h"
#include "stage/stage.h"
#include "stream/backlog.h"
#include "wire/edge.h"

struct mf_source { /* zeroed but for src and what it borrows: nothing sent yet */
    const char *src;
    int64_t max_lag;
    double timeout;              /* s that the learner may be silent */
    struct mf_edge_client *edge; /* NULL: no learner is asked */
    struct mf_policy *policy;
    struct mf_actor *actor;
    int64_t iter;           /* the next one to send */
    int64_t made;           /* and to make: `sent` has those from iter on */
    bool begun, met;        /* the learner has replied; and since the reader is this one */
    int64_t first, again;   /* iteration that it joined at, and since the reader is this one */
    struct mf_backlog sent; /* the last rounds, if a new reader may need them */
};

/* The version for the next round; MF_EDGE_NEWEST: this reader's first reply will say. */
int64_t mf_source_due(const struct mf_source *s);
enum { MF_SOURCE_HEAD = 2 };
/* Gets this version of the policy. 1: call again, after SIGINT; MF_SOURCE_HEAD: after another head, for a new reader.
 */
int mf_source_fetch(struct mf_run *run, struct mf_source *s, int64_t version, struct mf_err *err);
/* Sends the actor's rollout as round `made`, in at least so many slices. */
int mf_source_send(struct mf_run *run, struct mf_source *s, int64_t slices, struct mf_err *err);
int mf_source_send_again(struct mf_run *run, struct mf_source *s, struct mf_err *err); /* round `iter`, before `made` */
void mf_source_release(struct mf_source *s);

#endif
