/* episodes.h - which episodes a round reports on: counted by when they began.
 *
 * The episodes that end in a round are the short ones first: where successes
 * end an episode early, the first rounds would show 100 % whatever the policy
 * does. So one is counted when it has ended and with it all that began before
 * or together with it, in any environment; each is counted once, at most as
 * long after its end as the longest one takes.
 */
#ifndef MF_RL_EPISODES_H
#define MF_RL_EPISODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mf_tally { /* sums over n episodes */
    int64_t n, length, success;
    double ret;
};

struct mf_episode {
    int64_t began; /* decision of the run */
    double ret;
    int32_t length, success;
};

struct mf_episodes {
    int N;
    int64_t now;              /* decisions so far */
    int64_t *began;           /* (N) the decision that began, or will begin, what environment n is in */
    struct mf_episode *ended; /* not counted yet */
    size_t n_ended, room;
};

void mf_tally_add(struct mf_tally *t, double ret, int32_t length, bool success);

int mf_episodes_init(struct mf_episodes *q, int N, struct mf_err *err);
void mf_episodes_release(struct mf_episodes *q); /* safe on a zeroed one */
/* The decision at hand ended the episode of environment n, or made it void: the next one is another's. */
void mf_episodes_end(struct mf_episodes *q, int n, double ret, int32_t length, bool success);
void mf_episodes_begin(struct mf_episodes *q, int n);
void mf_episodes_tick(struct mf_episodes *q); /* on to the next decision */
/* Take out those that can be counted by now. */
struct mf_tally mf_episodes_count(struct mf_episodes *q);

/* As bytes, of mf_episodes_size; and back: how many were read, 0 where they are not whole or of other environments. */
size_t mf_episodes_size(const struct mf_episodes *q);
void mf_episodes_save(const struct mf_episodes *q, void *bytes);
size_t mf_episodes_load(struct mf_episodes *q, const void *bytes, size_t size);

#endif
