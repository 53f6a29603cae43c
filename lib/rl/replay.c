#include "rl/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/learnable.h"
#include "run/runs.h"
#include "run/safetensors.h"

static void place(struct mf_replay *r, struct mf_arena *a)
{
    const size_t n = r->room;
    r->obs = mf_arena_take(a, n * (size_t)r->O, sizeof *r->obs);
    r->noise = mf_arena_take(a, n * (size_t)r->D, sizeof *r->noise);
    r->action = mf_arena_take(a, n * (size_t)r->X, sizeof *r->action);
    r->reward = mf_arena_take(a, n, sizeof *r->reward);
    r->next = mf_arena_take(a, n, sizeof *r->next);
    r->flags = mf_arena_take(a, n, sizeof *r->flags);
}

static struct mf_replay shape_of(const struct mf_policy_spec *s, size_t room)
{
    return (struct mf_replay){.O = s->net.O, .D = s->net.D, .X = s->n_action_steps * s->action_dim, .room = room};
}

size_t mf_replay_memory(const struct mf_policy_spec *s, size_t room)
{
    struct mf_replay r = shape_of(s, room);
    place(&r, &r.arena);
    return r.arena.used;
}

int mf_replay_init(struct mf_replay *r, const struct mf_policy_spec *s, size_t room, struct mf_err *err)
{
    *r = shape_of(s, room);
    place(r, &r->arena);
    int rc = mf_arena_alloc(&r->arena, "the replay buffer: lower sac.replay_decisions", err);
    if (rc == 0)
        place(r, &r->arena);
    return rc;
}

void mf_replay_release(struct mf_replay *r)
{
    mf_arena_release(&r->arena);
    free(r->begins);
    free(r->ends);
    *r = (struct mf_replay){.O = 0};
}

/* ---- columns ---- */

enum { OBS, NOISE, ACTION, REWARD, FLAGS, BEGINS, ENDS, COLUMNS };
struct columns {
    struct mf_array array[COLUMNS]; /* (n decisions, width), the last two (N environments, 1) */
};

static struct columns columns_of(const struct mf_replay *r, size_t n, size_t N, void *const data[COLUMNS])
{
    const struct {
        const char *name;
        enum mf_dtype dtype;
        size_t rows, width;
    } all[COLUMNS] = {[OBS] = {"obs", MF_F32, n, (size_t)r->O},
                      [NOISE] = {"noise", MF_F32, n, (size_t)r->D},
                      [ACTION] = {"action", MF_F32, n, (size_t)r->X},
                      [REWARD] = {"reward", MF_F32, n, 1},
                      [FLAGS] = {"flags", MF_U8, n, 1},
                      [BEGINS] = {"begins", MF_U64, N, 1},
                      [ENDS] = {"ends", MF_U64, N, 1}};
    struct columns c = {0};
    for (int k = 0; k < COLUMNS; k++) {
        struct mf_array *a = &c.array[k];
        snprintf(a->name, sizeof a->name, "%s", all[k].name);
        a->dtype = all[k].dtype;
        a->rank = 2;
        a->dim[0] = all[k].rows;
        a->dim[1] = all[k].width;
        a->count = a->dim[0] * a->dim[1];
        a->bytes = a->count * mf_dtype_size(a->dtype);
        a->data = data[k];
    }
    return c;
}

static struct columns ring_of(const struct mf_replay *r)
{
    return columns_of(r, r->room, r->last_N,
                      (void *[]){r->obs, r->noise, r->action, r->reward, r->flags, r->begins, r->ends});
}

static size_t row_bytes(const struct mf_array *a)
{
    return a->dim[1] * mf_dtype_size(a->dtype);
}

static void *row_at(const struct mf_array *a, size_t row)
{
    return (char *)a->data + row * row_bytes(a);
}

/* ---- decisions ---- */

/* Decisions that ended the last round are followed by those that begin this one, in environments that went on: not
 * where a source lacks its part, or began new episodes. */
static void begin_round(struct mf_replay *r, size_t T, size_t N, const uint64_t *begins, const uint64_t *ends)
{
    const size_t before = r->last_T * r->last_N;
    for (size_t e = 0; r->last_N == N && before <= r->room && e < N; e++) {
        if (!begins[e] || begins[e] != r->ends[e])
            continue;
        const int64_t row = r->total - (int64_t)before + (int64_t)((e + 1) * r->last_T - 1),
                      successor = r->total + (int64_t)(e * T);
        r->next[(size_t)row % r->room] = (uint32_t)(successor - row);
    }
    r->begins = mf_xrealloc(r->begins, N, sizeof *r->begins);
    r->ends = mf_xrealloc(r->ends, N, sizeof *r->ends);
    memcpy(r->begins, begins, N * sizeof *begins);
    memcpy(r->ends, ends, N * sizeof *ends);
    r->last_T = T;
    r->last_N = N;
    r->added = true;
    r->least = r->least && r->least < T * N ? r->least : T * N;
}

/* A round without decisions: the next one follows nothing. */
static void skip_round(struct mf_replay *r)
{
    r->last_N = 0;
    r->empty++;
}

/* `row`: of each column but the last two. */
static void append(struct mf_replay *r, const struct columns *ring, const void *const row[BEGINS], bool last)
{
    const size_t at = (size_t)(r->total++ % (int64_t)r->room);
    for (int k = 0; k < BEGINS; k++)
        memcpy(row_at(&ring->array[k], at), row[k], row_bytes(&ring->array[k]));
    r->next[at] = !last;
}

size_t mf_replay_add(struct mf_replay *r, const struct mf_rows *rows, double shift)
{
    const size_t O = (size_t)r->O, D = (size_t)r->D, X = (size_t)r->X;
    size_t live = 0;
    begin_round(r, rows->T, rows->N, rows->seen_first, rows->seen_last);
    const struct columns ring = ring_of(r);
    for (size_t i = 0; i < rows->n; i++) {
        const bool lives = live < rows->n_live && rows->live[live] == i;
        const float reward = lives ? (float)((double)rows->returns[i] + shift * rows->n_exec[i]) : 0;
        const uint8_t flags = (uint8_t)((lives ? MF_ROW_LIVE : 0) | (lives && rows->end[i] ? MF_ROW_END : 0));
        append(r, &ring,
               (const void *[]){rows->obs + i * O, rows->chain + i * D, rows->action + i * X, &reward, &flags},
               i % rows->T == rows->T - 1);
        live += lives;
    }
    return live;
}

/* The successor of the row at `at`; SIZE_MAX: the row cannot be learned from. */
static size_t successor(const struct mf_replay *r, size_t at)
{
    const size_t next = (at + r->next[at]) % r->room;
    if (!(r->flags[at] & MF_ROW_LIVE))
        return SIZE_MAX;
    if (r->flags[at] & MF_ROW_END)
        return at;
    return r->next[at] && r->flags[next] & MF_ROW_LIVE ? next : SIZE_MAX;
}

bool mf_replay_draw(const struct mf_replay *r, struct mf_rng *rng, size_t n, size_t *at, size_t *next)
{
    const size_t count = r->total < (int64_t)r->room ? (size_t)r->total : r->room;
    bool any = false;
    for (size_t i = 0; i < count && !any; i++)
        any = successor(r, i) != SIZE_MAX;
    for (size_t i = 0; any && i < n; i++)
        do { /* by age, which a resumed run knows, too */
            at[i] = (size_t)(r->total - 1 - (int64_t)mf_rng_below(rng, (uint32_t)count)) % r->room;
            next[i] = successor(r, at[i]);
        } while (next[i] == SIZE_MAX);
    return any;
}

/* ---- files ---- */

static void path_of(char path[MF_PATH_MAX], const char *folder, int64_t iter)
{
    snprintf(path, MF_PATH_MAX, "%.900s/%06lld.safetensors", folder, (long long)iter);
}

int mf_replay_save(struct mf_replay *r, const char *folder, int64_t iter, int64_t back, struct mf_err *err)
{
    const size_t last_N = r->added ? r->last_N : 0, n = r->last_T * last_N;
    char path[MF_PATH_MAX], T[24], N[24], at[24];
    if (!r->added)
        skip_round(r);
    const struct columns ring = ring_of(r);
    struct columns c = columns_of(r, n, last_N, (void *[COLUMNS]){[BEGINS] = r->begins, [ENDS] = r->ends});
    struct mf_arena arena = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < BEGINS; k++)
            c.array[k].data = mf_arena_take(&arena, c.array[k].bytes, 1);
        if (pass == 0 && mf_arena_alloc(&arena, "a round", err))
            return err->code;
    }
    for (size_t i = 0; i < n; i++) /* the ring may end within the round */
        for (int k = 0; k < BEGINS; k++)
            memcpy(row_at(&c.array[k], i), row_at(&ring.array[k], (size_t)(r->total - (int64_t)(n - i)) % r->room),
                   row_bytes(&c.array[k]));
    snprintf(T, sizeof T, "%zu", n ? r->last_T : 0);
    snprintf(N, sizeof N, "%zu", last_N);
    snprintf(at, sizeof at, "%" PRId64, iter);
    path_of(path, folder, iter);
    struct mf_meta meta[] = {{"decisions", T}, {"environments", N}, {"iter", at}};
    int rc = mkdir(folder, 0777) && errno != EEXIST ? mf_err_errno(err, "%s", folder)
                                                    : mf_safetensors_write(path, c.array, COLUMNS, meta, 3, err);
    mf_arena_release(&arena);
    r->added = false;
    for (int64_t old = r->least ? iter - (int64_t)(r->room / r->least) - 1 - back - r->empty : -1; rc == 0 && old >= 0;
         old--) {
        path_of(path, folder, old);
        if (unlink(path))
            break;
    }
    return rc;
}

static size_t count_of(const struct mf_safetensors *f, const char *key)
{
    const char *text = mf_safetensors_meta(f, key);
    unsigned long long n = 0;
    return text && sscanf(text, "%llu", &n) == 1 && n <= UINT32_MAX ? (size_t)n : 0;
}

/* A file's numbers are not aligned. An older one has none: such a round follows nothing, and nothing follows it. */
static int resume_round(struct mf_replay *r, size_t T, size_t N, const char *begins, const char *ends,
                        struct mf_err *err)
{
    uint64_t *both;
    int rc = mf_alloc((void **)&both, 2 * N * sizeof *both, "a round's environments", err);
    if (rc)
        return rc;
    memset(both, 0, 2 * N * sizeof *both);
    if (begins && ends) {
        memcpy(both, begins, N * sizeof *both);
        memcpy(both + N, ends, N * sizeof *both);
    }
    begin_round(r, T, N, both, both + N);
    free(both);
    return 0;
}

static int check_numbers(const struct mf_array *a, const char *data, const char *path, struct mf_err *err)
{
    for (size_t i = 0; a->dtype == MF_F32 && i < a->count; i++) {
        float x; /* a file's numbers are not aligned */
        memcpy(&x, data + i * sizeof x, sizeof x);
        if (!mf_learnable((double)x))
            return mf_err_set(err, MF_EFORMAT, "%s: %s[%zu, %zu] is %g%s", path, a->name, i / a->dim[1], i % a->dim[1],
                              (double)x, mf_unlearnable_why((double)x));
    }
    return 0;
}

static int load_round(struct mf_replay *r, const char *path, int64_t iter, struct mf_err *err)
{
    struct mf_safetensors f;
    int rc = mf_safetensors_open(&f, path, err);
    if (rc)
        return rc;
    const char *is = mf_safetensors_meta(&f, "iter");
    if (is && strtoll(is, NULL, 10) != iter)
        rc = mf_err_set(err, MF_EFORMAT, "%s is of iteration %s, not %" PRId64 ": it was moved or replaced", path, is,
                        iter);
    const size_t T = count_of(&f, "decisions"), N = count_of(&f, "environments"), n = T * N;
    const struct columns want = columns_of(r, n, N, (void *[COLUMNS]){NULL});
    const char *data[COLUMNS];
    for (int i = 0; rc == 0 && i < COLUMNS; i++) {
        const struct mf_array *a = mf_safetensors_find(&f, want.array[i].name);
        data[i] = a ? a->data : NULL;
        if (!a && i >= BEGINS)
            continue;
        if (!a || a->dtype != want.array[i].dtype || a->count != want.array[i].count)
            rc = mf_err_set(err, MF_EFORMAT,
                            "%s is no round of this policy's replay buffer: '%s' is missing or of another "
                            "shape",
                            path, want.array[i].name);
        else
            rc = check_numbers(&want.array[i], data[i], path, err);
    }
    if (rc == 0 && n)
        rc = resume_round(r, T, N, data[BEGINS], data[ENDS], err);
    else
        skip_round(r);
    r->added = false;
    const struct columns ring = ring_of(r);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const void *row[BEGINS];
        for (int k = 0; k < BEGINS; k++)
            row[k] = data[k] + i * row_bytes(&want.array[k]);
        append(r, &ring, row, i % T == T - 1);
    }
    mf_safetensors_close(&f);
    return rc;
}

/* Decisions of a round's file; 0: there is none. */
static int64_t decisions(const char *path)
{
    struct mf_safetensors f;
    struct mf_err none;
    if (access(path, F_OK) || mf_safetensors_open(&f, path, &none))
        return 0;
    const size_t n = count_of(&f, "decisions") * count_of(&f, "environments");
    mf_safetensors_close(&f);
    return (int64_t)n;
}

int mf_replay_load(struct mf_replay *r, const char *folder, int64_t iter, int64_t total, struct mf_err *err)
{
    const int64_t need = total < (int64_t)r->room ? total : (int64_t)r->room;
    char path[MF_PATH_MAX];
    int64_t first = iter, found = 0;
    int left = 0;
    for (int64_t later = iter; left == 0; later++) { /* a killed run's */
        path_of(path, folder, later);
        left = unlink(path);
        strcat(path, ".part");
        unlink(path);
    }
    while (found < need && first > 0) {
        path_of(path, folder, --first);
        if (access(path, F_OK))
            break;
        found += decisions(path);
    }
    if (found < need || found > total)
        return mf_err_set(err, MF_EFORMAT,
                          "%s has %lld of the last %lld decisions that the replay buffer needs: start over with "
                          "run.resume=never run.force=true",
                          folder, (long long)found, (long long)need);
    r->total = total - found;
    for (int64_t i = first; i < iter; i++) {
        path_of(path, folder, i);
        int rc = load_round(r, path, i, err);
        if (rc)
            return rc;
    }
    return 0;
}
