/* Ranks: the verbs, over a transport between threads; minibatches that they divide; ranks that are late or differ. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stop.h"
#include "device_under_test.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "rank_lab.h"
#include "tap.h"

/* ---- verbs ---- */

static int speak(struct rank *r)
{
    int words[3] = {0}, rc;
    if (r->end.me == 0)
        words[2] = 7;
    for (int i = 0; i < 3; i++)
        if ((rc = mf_ranks_broadcast(r->ranks, words, sizeof words, &r->err)))
            return rc;
    return words[2] == 7 && mf_ranks_compare(r->ranks, words, sizeof words, "the words", &r->err) == 0 ? 0 : -1;
}

static int gather(struct rank *r)
{
    enum { ITEMS = 23 };
    uint16_t all[ITEMS] = {0};
    size_t first[MOST + 1];
    for (int k = 0; k <= r->n; k++)
        first[k] = mf_ranks_first(r->ranks, k, ITEMS);
    for (size_t i = first[r->end.me]; i < first[r->end.me + 1]; i++)
        all[i] = (uint16_t)(i * i);
    int rc = mf_ranks_gather(r->ranks, all, sizeof *all, first, &r->err), bad = first[r->n] != ITEMS;
    for (size_t i = 0; i < ITEMS; i++)
        bad += all[i] != i * i;
    return rc ? rc : -bad;
}

static int exchange(struct rank *r)
{
    enum { ROWS = 6, COLUMNS = 11, STRIDE = 13 };
    static const size_t at[ROWS] = {0, 1, 3, 4, 7, 9};
    float matrix[10 * STRIDE] = {0};
    size_t row[MOST + 1], column[MOST + 1];
    int bad = 0, me = r->end.me;
    for (int k = 0; k <= r->n; k++) {
        row[k] = mf_ranks_first(r->ranks, k, ROWS);
        column[k] = mf_ranks_first(r->ranks, k, COLUMNS);
    }
    for (size_t i = row[me]; i < row[me + 1]; i++)
        for (size_t j = 0; j < COLUMNS; j++)
            matrix[at[i] * STRIDE + j] = (float)(100 * i + j);
    int rc = mf_ranks_exchange(r->ranks, matrix, STRIDE, row, at, column, &r->err);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = column[me]; j < column[me + 1]; j++)
            bad += matrix[at[i] * STRIDE + j] != (float)(100 * i + j);
    return rc ? rc : -bad;
}

static int scatter(struct rank *r)
{
    enum { ITEMS = 23 };
    uint16_t all[ITEMS], mine[ITEMS] = {0};
    size_t first[MOST + 1];
    int bad = 0, me = r->end.me;
    for (int k = 0; k <= r->n; k++)
        first[k] = mf_ranks_first(r->ranks, k, ITEMS);
    for (size_t i = 0; i < ITEMS; i++)
        all[i] = (uint16_t)(i * i);
    int rc = mf_ranks_scatter(r->ranks, me ? NULL : all, mine, sizeof *all, first, &r->err);
    for (size_t i = 0; i < ITEMS; i++) {
        const size_t at = first[me] + i;
        bad += mine[i] != (at < first[me + 1] ? at * at : 0);
    }
    return rc ? rc : -bad;
}

/* Thing i lies in rank 7i mod n, and goes to rank i/4 mod n; all its bytes are 3i. */
static int move_things(struct rank *r, int things, size_t bytes)
{
    struct mf_ranks_move *moves = mf_xcalloc((size_t)things, sizeof *moves);
    char *has = mf_xcalloc((size_t)things, bytes), *gets = mf_xcalloc((size_t)things, bytes);
    int bad = 0, me = r->end.me;
    for (int i = 0; i < things; i++) {
        struct mf_ranks_move *m = &moves[i];
        const size_t at = (size_t)i * bytes;
        *m = (struct mf_ranks_move){7 * i % r->n, i / 4 % r->n, NULL, NULL};
        memset(has + at, 3 * i, bytes);
        m->has = m->from == me ? has + at : NULL;
        m->gets = m->to == me ? gets + at : NULL;
    }
    int rc = mf_ranks_move(r->ranks, moves, (size_t)things, bytes, &r->err);
    for (size_t i = 0; i < (size_t)things * bytes; i++)
        bad += gets[i] != (moves[i / bytes].to == me ? has[i] : 0);
    free(moves);
    free(has);
    free(gets);
    return rc ? rc : -bad;
}

static int move(struct rank *r)
{
    int rc = move_things(r, 37, 5);
    rc = rc ? rc : move_things(r, 9, 300000);
    return rc ? rc : move_things(r, 7, 1100000);
}

static int count(struct rank *r)
{
    int64_t number[2] = {1, (int64_t)r->end.me << 40};
    int rc = mf_ranks_add(r->ranks, number, 2, &r->err);
    return rc ? rc : -(number[0] != r->n || number[1] != ((int64_t)r->n * (r->n - 1) / 2) << 40);
}

/* All but the first have an error of their own; the first of them is what all have. */
static int agree(struct rank *r)
{
    struct mf_err err = {0};
    int rc = mf_ranks_agree(r->ranks, 0, &err);
    if (rc || err.code)
        return -1;
    rc = r->end.me ? mf_err_set(&err, MF_EFORMAT, "of rank %d", r->end.me) : 0;
    rc = mf_ranks_agree(r->ranks, rc, &err);
    return rc == (r->n > 1 ? MF_EFORMAT : 0) &&
                   (r->n == 1 || (!strncmp(err.text, "rank 1 on ", 10) && strstr(err.text, ": of rank 1")))
               ? 0
               : -1;
}

/* The last has an error of its own, and the others the loss of a peer: all meet with its. */
static int blame(struct rank *r)
{
    const int last = r->n - 1;
    struct mf_err err = {0};
    int rc = r->end.me == last ? mf_err_set(&err, MF_EDEVICE, "it burns")
             : r->end.me == 0  ? mf_err_set(&err, MF_EIO, "a peer is lost")
                               : 0;
    rc = mf_ranks_meet(r->ranks, rc, &err);
    return rc == MF_EDEVICE && strstr(err.text, "it burns") && (last == 0 || !strncmp(err.text, "rank ", 5)) ? 0 : -1;
}

static int differ(struct rank *r)
{
    return mf_ranks_compare(r->ranks, &r->end.me, sizeof r->end.me, "the number", &r->err);
}

static int come_late(struct rank *r)
{
    int rc = mf_ranks_meet(r->ranks, 0, &r->err);
    if (rc || r->end.me != 2)
        return rc ? rc : mf_ranks_meet(r->ranks, 0, &r->err);
    usleep(500000);
    return -1;
}

static int write_long(struct rank *r)
{
    if (r->end.me == 0)
        usleep(300000);
    return 0;
}

static int leave_late(struct rank *r)
{
    if (r->end.me == 2)
        usleep(500000);
    return 0;
}

static void verbs(void)
{
    for (int n = 1; n <= MOST; n++)
        ok(!together(n, 10, speak, NULL) && !together(n, 10, gather, NULL) && !together(n, 10, exchange, NULL),
           "%d ranks tell, gather and exchange", n);
    aborts = true;
    for (int n = 1; n <= MOST; n++)
        ok(!together(n, 10, scatter, NULL) && !together(n, 10, move, NULL) && !together(n, 10, count, NULL) &&
               !together(n, 10, agree, NULL) && !together(n, 10, blame, NULL),
           "%d ranks scatter, move, count, agree, and know the culprit", n);
    aborts = false;
    atomic_store(&aborted, false);
    ok(together(3, 0.5, differ, NULL) == 2 && rank[1].rc == MF_EDEVICE && rank[1].end.closed_by == 1 &&
           strstr(rank[1].err.text, "the number of rank 1 on "),
       "%s", rank[1].err.text);
    ok(together(3, 0.2, come_late, NULL) == 3 && rank[0].rc == MF_EIO && rank[1].rc == MF_EIO &&
           strstr(rank[0].err.text, "rank 2 on ") && strstr(rank[0].err.text, "minibatch 2 of this start"),
       "%s", rank[0].err.text);
    aborts = true;
    ok(together(3, 0.2, leave_late, NULL) == 0 && rank[0].end.closed_by == 1 && rank[1].end.closed_by == 1,
       "ranks do not wait at the end for one that hangs");
    aborts = false;
    atomic_store(&aborted, false);
    ok(together(3, 0.1, write_long, NULL) == 0 && rank[1].end.closed_by == 0, "but for rank 0, which writes");
}

/* ---- minibatches ---- */

enum { N = 300, O = 7, D = 20, H = 48, IDLE = 50000, STEPS = 7 };
enum { STAYS = 1, VETOED = 4, NOT_FINITE = 5 }; /* minibatches: the critic stays; two without a step */
static const size_t sizes[STEPS] = {N, 97, 9, 1, 20, 20, N};
static float data[3][N * D]; /* x, target, weight */

struct result {
    int lanes;
    size_t size, trained;
    float *state; /* weights, a copy of them with averages, then the moments and the average, of ranks rank 0's alone */
    float y[STEPS][N * D];
    struct mf_verdict verdict[STEPS];
    struct mf_memory memory; /* of the largest minibatch */
};

static struct mf_step step_of(int i, struct mf_val loss)
{
    return (struct mf_step){.lr = {1e-2, i == STAYS ? 0 : 1e-2},
                            .max_norm = 0.5,
                            .ema_decay = 0.9,
                            .averaged = 1u << MF_GROUP_POLICY,
                            .veto = loss,
                            .most = i == VETOED ? -1 : INFINITY,
                            .first = true};
}

/* To the result, from all ranks. */
static int keep(struct mf_adam *a, const struct mf_params *ps, const struct mf_params *copy, struct result *to,
                struct mf_err *err)
{
    const float *const of[] = {a->m, a->v, a->ema};
    int rc = 0;
    to->size = ps->size;
    to->trained = ps->trained;
    to->state = mf_xcalloc(2 * ps->size + 3 * ps->trained, sizeof *to->state);
    memcpy(to->state, ps->value, ps->size * sizeof(float));
    memcpy(to->state + ps->size, copy->value, ps->size * sizeof(float));
    for (size_t i = 0; rc == 0 && i < 3; i++)
        rc = mf_adam_collect(a, of[i], 0, ps->trained, to->state + 2 * ps->size + i * ps->trained, err);
    return rc;
}

/* A network with parameters in the middle that nothing trains, longer than a part of a sum, and frozen ones. */
static int learn(struct mf_ranks *ranks, int n_threads, int lanes, struct result *to, struct mf_err *err)
{
    struct mf_params ps = {0}, copy;
    struct mf_engine *e;
    struct mf_plan *p, *copied;
    struct mf_adam a;
    struct mf_graph *g = mf_graph_new(&ps), *of_copy = mf_graph_new(&copy);
    const int W0 = mf_param_add(&ps, "0", H, O, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.3f);
    mf_param_add(&ps, "frozen", 1, IDLE, 1, MF_GROUP_ENCODER, MF_INIT_NORMAL, 0.3f);
    mf_param_add(&ps, "idle", 1, IDLE, 1, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.3f);
    const int W1 = mf_param_add(&ps, "1", D, H, 2, MF_GROUP_CRITIC, MF_INIT_NORMAL, 0.3f);
    const int W2 = mf_param_add(&ps, "2", H, H, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.1f);
    mf_params_freeze(&ps, 1u << MF_GROUP_ENCODER);
    int rc = mf_params_alloc(&ps, err);
    mf_params_fresh(&ps, 5);
    copy = ps;
    rc = rc ? rc : mf_params_alloc(&copy, err);
    mf_linear(of_copy, mf_input(of_copy, 1, O), W0, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    const struct mf_val x = mf_input(g, 1, O), target = mf_input(g, 1, D), weight = mf_input(g, 1, 1),
                        shift = mf_shared(g, 1, H);
    const struct mf_val learned = mf_linear(g, shift, W2, 0, -1, MF_NONE, MF_NONE, MF_ACT_TANH);
    const struct mf_val h = mf_linear(g, x, W0, 0, -1, learned, MF_NONE, MF_ACT_MISH);
    const struct mf_val y = mf_linear(g, h, W1, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    const struct mf_val loss = mf_mse(g, y, target, weight);
    const float moved[H] = {0.5f, -0.5f}, nan[N] = {NAN};
    mf_loss(g, loss, 1.0f);
    if (rc || (rc = mf_engine_open(&e, device_under_test(), n_threads, MF_FP32, err)) ||
        (rc = mf_engine_divide(e, lanes, ranks, err)) || (rc = mf_engine_join(e, err)) ||
        (rc = mf_plan_new(&p, e, g, &(struct mf_plan_opts){.backward = true}, err)) ||
        (rc = mf_plan_new(&copied, e, of_copy, &(struct mf_plan_opts){0}, err)) || (rc = mf_adam_init(&a, e, &ps, err)))
        return rc;
    a.ema = mf_xcalloc(a.floats, sizeof *a.ema);
    mf_plan_set(p, shift, moved);
    for (int i = 0; rc == 0 && i < STEPS; i++) {
        const struct mf_feed feeds[] = {
            {x, data[0], O, false}, {target, data[1], D, false}, {weight, i == NOT_FINITE ? nan : data[2], 1, false}};
        const struct mf_fetch fetch = {y, to->y[i], D};
        const struct mf_batch batch = {.n = sizes[i], .feed = feeds, .n_feeds = 3, .fetch = &fetch, .n_fetches = 1};
        const struct mf_step step = step_of(i, loss);
        rc = mf_plan_learn(p, &batch, &step, &a, &to->verdict[i], err);
    }
    rc = rc ? rc : mf_engine_settle(e, &ps, &a, err);
    to->lanes = lanes;
    to->memory = (struct mf_memory){.keys = {NULL}};
    mf_plan_memory(p, N, &to->memory);
    rc = rc ? rc : mf_weights_copy(e, &copy, &ps, &a, 1u << MF_GROUP_POLICY, err);
    rc = rc ? rc : mf_engine_settle(e, &copy, NULL, err);
    rc = rc ? rc : keep(&a, &ps, &copy, to, err);
    free(a.ema);
    mf_adam_release(&a);
    mf_plan_free(p);
    mf_plan_free(copied);
    mf_engine_close(e);
    mf_graph_free(g);
    mf_graph_free(of_copy);
    free(copy.value);
    mf_params_release(&ps);
    return rc;
}

static int learn_together(struct rank *r)
{
    const struct result *alone = r->arg;
    struct result *mine = mf_xcalloc(1, sizeof *mine);
    int rc = learn(r->ranks, 1 + r->end.me % 2, alone->lanes, mine, &r->err);
    const size_t floats = 2 * alone->size + (r->end.me ? 0 : 3 * alone->trained);
    if (rc == 0)
        rc = memcmp(mine->state, alone->state, floats * sizeof(float)) != 0 ||
             memcmp(mine->y, alone->y, sizeof mine->y) != 0 ||
             memcmp(mine->verdict, alone->verdict, sizeof mine->verdict) != 0;
    const double *const own = mine->memory.of, *const whole = alone->memory.of;
    if (rc == 0 && r->n > 1 && !strcmp(device_under_test(), "cpu"))
        rc = own[MF_MEMORY_GRADIENTS] > .9 * whole[MF_MEMORY_GRADIENTS];
    free(mine->state);
    free(mine);
    return rc;
}

/* Whole slices, about the same number in each; none where there are fewer. */
static void segments(void)
{
    struct mf_params ps = {0};
    mf_param_add(&ps, "a", 1, 100, 1, MF_GROUP_POLICY, MF_INIT_CONST, 0);
    mf_param_add(&ps, "b", 4, MF_STEP_SLICE, 2, MF_GROUP_POLICY, MF_INIT_CONST, 0);
    mf_param_add(&ps, "frozen", 1, IDLE, 1, MF_GROUP_ENCODER, MF_INIT_CONST, 0);
    mf_params_freeze(&ps, 1u << MF_GROUP_ENCODER);
    size_t *two = mf_segments(&ps, 2), *many = mf_segments(&ps, 9);
    ok(two[0] == 0 && two[1] == 112 + 2 * MF_STEP_SLICE && two[2] == ps.trained, "2 ranks have 3 and 2 slices");
    size_t most = 0;
    for (int k = 0; k < 9; k++)
        most = many[k + 1] - many[k] > most ? many[k + 1] - many[k] : most;
    ok(most <= MF_STEP_SLICE + 112 && many[9] == ps.trained, "9 ranks at most one large one each");
    free(two);
    free(many);
    mf_params_release(&ps);
}

static void minibatches(void)
{
    struct mf_err err = {0};
    struct result *alone = mf_xcalloc(1, sizeof *alone);
    struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, 0, 0, 0);
    for (int k = 0; k < 3; k++)
        mf_rng_normal(&rng, data[k], N * D);
    static const int lanes[] = {0, 3, 13};
    for (int i = few_cases() ? 2 : 0; i < 3; i++) {
        ok(learn(NULL, 2, lanes[i], alone, &err) == 0 && alone->verdict[0].veto != 0 && alone->verdict[VETOED].vetoed &&
               !alone->verdict[NOT_FINITE].finite && alone->verdict[STEPS - 1].stepped,
           "a process alone learns %s", err.text);
        for (int n = 1; n <= MOST; n++)
            ok(together(n, 10, learn_together, alone) == 0,
               "%d ranks, lanes=%d, learn with the same bits: all outputs, weights, moments, averages; in less memory",
               n, lanes[i]);
        free(alone->state);
    }
    free(alone);
}

/* ---- */

static int stop(struct rank *r)
{
    if (mf_stop_signal())
        return -1;
    int rc = mf_ranks_meet(r->ranks, 0, &r->err);
    return rc ? rc : mf_stop_signal() == SIGTERM ? 0 : -1;
}

static void signals(void)
{
    mf_stop_catch();
    mf_stop_hold(true);
    kill(getpid(), SIGTERM);
    ok(together(3, 10, stop, NULL) == 0 && mf_stop_check(&rank[0].err) == MF_STOPPED,
       "a signal shows in all ranks where they meet, and not before");
    mf_stop_hold(false);
}

/* One rank reads for longer than the others' patience. */
static int read_files(struct rank *r)
{
    if (r->end.me == 1)
        usleep(300000);
    return mf_ranks_await(r->ranks, &r->err);
}

static void alone(void)
{
    struct mf_ranks *r;
    struct mf_err err;
    const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int me;
    for (int i = 0; i < 3; i++)
        unsetenv(names[i]);
    ok(!mf_ranks_launched(NULL) && mf_ranks_open(&r, 1, &err) == 0 && !r && mf_ranks_count(r) == 1 &&
           mf_ranks_me(r) == 0 && mf_ranks_meet(r, 0, &err) == 0,
       "a process that mpirun did not start is alone");
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    ok(!mf_ranks_launched(NULL), "so is the only one that it started");
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    ok(mf_ranks_launched(&me) && me == 2, "rank 2 of 4");
    setenv("MF_MPI", "/nowhere/mf_mpi.so", 1);
    ok(mf_ranks_open(&r, 1, &err) == MF_EUSAGE && strstr(err.text, "ranks=auto: the plugin cannot be loaded"), "%s",
       err.text);
}

int main(void)
{
    verbs();
    segments();
    minibatches();
    signals();
    ok(together(3, .1, read_files, NULL) == 0, "work of its own makes no rank too late");
    alone();
    return done();
}
