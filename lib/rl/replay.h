/* replay.h - the replay buffer: the last decisions of a run, in memory and as files of its rounds.
 *
 * A row is a decision: what it observed, its noise, the executed action, and the reward. Its successor is the next
 * decision of its environment; the last one of a round waits for the next round, which follows where its first
 * observation is the one that came after (mf_rows' seen_first and seen_last). A row of an episode's last decision has
 * no successor and needs none.
 *
 *   O observation   D noise   X executed action, n_action_steps * action_dim
 */
#ifndef MF_RL_REPLAY_H
#define MF_RL_REPLAY_H

#include "base/mem.h"
#include "base/rng.h"
#include "rl/rows.h"

struct mf_replay {
    int O, D, X;
    size_t room;                          /* rows */
    int64_t total;                        /* rows so far; row i is at i % room, the last `room` of them are there */
    size_t last_T, last_N, least;         /* of the newest round, N 0: without decisions; decisions of the smallest */
    int64_t empty;                        /* rounds without decisions so far */
    bool added;                           /* the newest round is in no file yet */
    float *obs, *noise, *action, *reward; /* (room, ..) */
    uint8_t *flags;                       /* (room) MF_ROW_.. */
    uint64_t *begins, *ends;              /* (last_N), malloc'ed */
    uint32_t *next;                       /* (room) distance to the successor; 0: none yet */
    struct mf_arena arena;
};

enum { MF_ROW_LIVE = 1, MF_ROW_END = 2 };

int mf_replay_init(struct mf_replay *r, const struct mf_policy_spec *s, size_t room, struct mf_err *err);
size_t mf_replay_memory(const struct mf_policy_spec *s, size_t room); /* bytes */
void mf_replay_release(struct mf_replay *r);                          /* safe on a zeroed one */

/* Appends a round of at most `room` rows (mf_rows of policy.steer=sac); a reward is the sum over executed control
 * steps, each with `shift` added. Returns the number of live rows. */
size_t mf_replay_add(struct mf_replay *r, const struct mf_rows *rows, double shift);
/* Draws n decisions that have a successor or end an episode: their places and those of their successors; that of an end
 * is its own place. False: there is none. */
bool mf_replay_draw(const struct mf_replay *r, struct mf_rng *rng, size_t n, size_t *at, size_t *next);

/* The round added since the last call, if any, to FOLDER/NNNNNN.safetensors of `iter`; files that the buffer does not
 * need, now or when the run resumes `back` rounds before, are removed. */
int mf_replay_save(struct mf_replay *r, const char *folder, int64_t iter, int64_t back, struct mf_err *err);
/* Fills an empty buffer from the rounds before `iter`, of `total` rows so far; files of later rounds are removed.
 * MF_EFORMAT: a file is missing or of another policy. */
int mf_replay_load(struct mf_replay *r, const char *folder, int64_t iter, int64_t total, struct mf_err *err);

#endif
