/* episodes.h - the episodes that a round reports on, counted in the order of their starts.
 *
 * Short episodes end first. Where a success ends an episode early, a mean over
 * the episodes that ended would begin at 100 % for any policy. So an episode is
 * counted once it has ended and all episodes that began no later have ended,
 * in any environment. Each episode is counted once; the delay is at most the
 * duration of the longest episode.
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
    int64_t began; /* its first decision, counted over the run */
    double ret;
    int32_t length, success;
};

struct mf_episodes {
    int N;
    int64_t now;              /* decisions so far */
    int64_t *began;           /* (N) the first decision of environment n's current episode */
    struct mf_episode *ended; /* (n_ended) not counted yet */
    size_t n_ended, room;
};

void mf_tally_add(struct mf_tally *t, double ret, int32_t length, bool success);

int mf_episodes_init(struct mf_episodes *q, int N, struct mf_err *err);
void mf_episodes_release(struct mf_episodes *q); /* safe on a zeroed one */
/* The current decision ended the episode of environment n (end), or voided it (begin): the next decision begins another
 * episode. */
void mf_episodes_end(struct mf_episodes *q, int n, double ret, int32_t length, bool success);
void mf_episodes_begin(struct mf_episodes *q, int n);
/* All running episodes are void, and so are those that wait for them; the next decision begins new ones. Between two
 * decisions, after mf_episodes_tick. */
void mf_episodes_restart(struct mf_episodes *q);
void mf_episodes_tick(struct mf_episodes *q); /* the next decision */
/* Removes and sums the episodes that can be counted by now. */
struct mf_tally mf_episodes_count(struct mf_episodes *q);

/* To mf_episodes_size bytes; and back. Load returns the number of bytes read; 0: they are incomplete, or for another N.
 */
size_t mf_episodes_size(const struct mf_episodes *q);
void mf_episodes_save(const struct mf_episodes *q, void *bytes);
size_t mf_episodes_load(struct mf_episodes *q, const void *bytes, size_t size);

#endif
