#include <stdlib.h>
#include <string.h>

#include "rl/advantage.h"
#include "tap.h"

enum { T4 = 4 };
static const float ones[T4] = {1, 1, 1, 1}, values[T4] = {.5f, .6f, .7f, .8f}, last[1] = {.9f};
static const uint8_t none[16], at1[T4] = {0, 1}, at3[T4] = {0, 0, 0, 1};
static const struct mf_advantage usual = {.gamma = .99, .gae_lambda = .95, .n_step = 4};

static struct mf_rollout four(const uint8_t *term, const uint8_t *trunc, const float *final)
{
    return (struct mf_rollout){.T = T4,
                               .N = 1,
                               .C = 1,
                               .rewards = ones,
                               .terminated = term,
                               .truncated = trunc,
                               .prev_values = values,
                               .last_values = last,
                               .final_values = final};
}

static void table(const char *what, struct mf_advantage a, enum mf_estimator how, struct mf_rollout r,
                  const double *adv, const double *ret)
{
    float A[16], R[16];
    char name[96];
    struct mf_err err = {0};
    ok(mf_advantage(&a, how, &r, A, R, &err) == 0, "%s: it computes %s", what, err.text);
    for (size_t t = 0; t < r.T; t++) {
        snprintf(name, sizeof name, "%s: %s[%zu]", what, adv ? "A" : "R", t);
        near(adv ? A[t] : R[t], adv ? adv[t] : ret[t], 1e-6, name);
        near(R[t] - A[t], r.prev_values[t], 1e-6, "R = A + v");
    }
}

static void tables(void)
{
    static const float f1[T4] = {NAN, .65f, NAN, NAN}, f3[T4] = {NAN, NAN, NAN, .65f},
                       unread[T4] = {NAN, NAN, NAN, NAN};
    static const double open[] = {3.995498378, 3.085059413, 2.1180855, 1.091}, dead[] = {1.4702, .4, 2.1180855, 1.091},
                        cut[] = {2.07541175, 1.0435, 2.1180855, 1.091}, R[] = {2.57541175, 1.6435, 2.8180855, 1.891},
                        both[] = {3.754266474, 2.89693405, 1.9801, 1}, sums[] = {3.940399, 2.9701, 1.99, 1},
                        end[] = {3.789600627, 2.866135701, 1.88531175, .8435};
    table("no end", usual, MF_GAE, four(none, none, NULL), open, NULL);
    table("terminated at 1", usual, MF_GAE, four(at1, none, NULL), dead, NULL);
    table("terminated and truncated at 1", usual, MF_GAE, four(at1, at1, f1), dead, NULL);
    for (enum mf_estimator how = MF_GAE; how <= MF_NSTEP; how++)
        for (int compat = MF_COMPAT_NONE; compat <= MF_COMPAT_SEED; compat++) {
            struct mf_advantage whose = usual;
            whose.compat = compat;
            table("terminated wins", whose, how, four(at3, at3, unread), NULL, how == MF_GAE ? both : sums);
        }
    table("truncated at 1", usual, MF_GAE, four(none, at1, f1), cut, NULL);
    table("truncated at 1", usual, MF_GAE, four(none, at1, f1), NULL, R);
    table("truncated at 3", usual, MF_GAE, four(none, at3, f3), end, NULL);

    static const float v[] = {1, 1, 100, 100}, hundred[] = {100}, final[] = {NAN, 1, NAN, NAN};
    struct mf_rollout r = four(none, at1, final);
    r.rewards = (const float[T4]){0};
    r.prev_values = v;
    r.last_values = hundred;
    table("a time limit leaks nothing", (struct mf_advantage){.gamma = 1, .gae_lambda = 1}, MF_GAE, r, (double[T4]){0},
          NULL);
}

static void n_steps(void)
{
    static const float r6[] = {1, 2, 3, 4, 5, 6}, v6[] = {10, 20, 30, 40, 50, 60}, seventy[] = {70};
    static const uint8_t at2[6] = {0, 0, 1};
    static const double one[] = {19, 29, 39, 49, 59, 69}, two[] = {27.1, 37.1, 47.1, 57.1, 67.1, 69},
                        three[] = {34.39, 44.39, 54.39, 64.39, 67.1, 69}, dead[] = {5.23, 4.7, 3, 64.39, 67.1, 69};
    struct mf_rollout r = {.T = 6,
                           .N = 1,
                           .C = 1,
                           .rewards = r6,
                           .terminated = none,
                           .truncated = none,
                           .prev_values = v6,
                           .last_values = seventy};
    table("n=1", (struct mf_advantage){.gamma = .9, .n_step = 1}, MF_NSTEP, r, NULL, one);
    table("n=2", (struct mf_advantage){.gamma = .9, .n_step = 2}, MF_NSTEP, r, NULL, two);
    table("n=3", (struct mf_advantage){.gamma = .9, .n_step = 3}, MF_NSTEP, r, NULL, three);
    r.terminated = at2;
    table("n=3, terminated at 2", (struct mf_advantage){.gamma = .9, .n_step = 3}, MF_NSTEP, r, NULL, dead);
}

/* The results of the published formulas, by hand. */
static void compat(void)
{
    static const float f1[T4] = {0, .65f, 0, 0};
    struct mf_rollout r = four(none, at1, f1);
    struct mf_advantage a = usual;
    a.compat = MF_COMPAT_CLEANRL;
    table("cleanrl: a time limit is a death", a, MF_GAE, r, (double[]){1.4702, .4, 2.1180855, 1.091}, NULL);
    a.compat = MF_COMPAT_DPPO;
    table("dppo: a time limit is ignored", a, MF_GAE, r, (double[]){3.995498378, 3.085059413, 2.1180855, 1.091}, NULL);
    a.compat = MF_COMPAT_SEED; /* delta_3 = 1 - .8 = .2; A_2 = 1 + .99*.8 - .7 + .9405*.2 */
    table("seed: last_value is 0", a, MF_GAE, r, (double[]){1.4702, .4, 1.2801, .2}, NULL);
}

static void chunks(void)
{
    static const float r[] = {1, 2, 4, 1, NAN, NAN}, v[] = {1, 2}, lv[] = {3};
    static const int32_t n_exec[] = {3, 1};
    struct mf_rollout c = {.T = 2,
                           .N = 1,
                           .C = 3,
                           .rewards = r,
                           .terminated = none,
                           .truncated = none,
                           .n_exec = n_exec,
                           .prev_values = v,
                           .last_values = lv};
    struct mf_advantage a = {.gamma = .5, .gae_lambda = 0, .n_step = 1};
    table("chunk, sum", a, MF_GAE, c, NULL, (double[]){7 + .5 * 2, 1 + .5 * 3});
    a.reward = MF_REWARD_MAX;
    table("chunk, max", a, MF_GAE, c, NULL, (double[]){4 + .5 * 2, 1 + .5 * 3});
    a.reward = MF_REWARD_SUM;
    a.discount = MF_DISCOUNT_STEP;
    table("step: gamma^k inside, gamma^n_exec after", a, MF_GAE, c, NULL, (double[]){3 + .125 * 2, 1 + .5 * 3});
    table("step, mc: the same g nests", a, MF_MC, c, NULL, (double[]){3 + .125 * 2.5, 1 + .5 * 3});
    c.rewards_scaled = (const float[]){10, 20};
    table("scaled rewards win", a, MF_GAE, c, NULL, (double[]){10 + .125 * 2, 20 + .5 * 3});
    struct mf_err err;
    float A[2], R[2];
    a.reward = MF_REWARD_MAX;
    ok(mf_advantage(&a, MF_GAE, &c, A, R, &err) == MF_EUSAGE, "max with step is refused");
}

enum { T = 37, N = 1030, TN = T * N };

struct big {
    float r[TN], v[TN], f[TN], lv[N];
    uint8_t term[TN], trunc[TN], valid[TN], mask[TN];
};

static float uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 16777216.0f;
}

static struct mf_rollout random_rollout(struct big *b)
{
    uint32_t state = 7;
    for (int i = 0; i < TN; i++) {
        b->r[i] = uniform(&state) - .5f;
        b->v[i] = uniform(&state);
        b->f[i] = uniform(&state);
        b->term[i] = uniform(&state) < .05f;
        b->trunc[i] = uniform(&state) < .05f;
        b->valid[i] = b->mask[i] = 1;
    }
    for (int n = 0; n < N; n++)
        b->lv[n] = uniform(&state);
    return (struct mf_rollout){.T = T,
                               .N = N,
                               .C = 1,
                               .rewards = b->r,
                               .terminated = b->term,
                               .truncated = b->trunc,
                               .prev_values = b->v,
                               .last_values = b->lv,
                               .final_values = b->f};
}

static double gap(const float *a, const float *b)
{
    double most = 0;
    for (int i = 0; i < TN; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void run(struct mf_advantage a, enum mf_estimator how, const struct mf_rollout *r, float *A, float *R)
{
    struct mf_err err;
    if (mf_advantage(&a, how, r, A, R, &err))
        ok(0, "%s", err.text);
}

/* The recursion of the header, one environment at a time, in double. */
static void plain(const struct mf_rollout *r, double lambda, float *A)
{
    for (size_t n = 0; n < r->N; n++) {
        double after = 0;
        for (size_t t = r->T; t-- > 0;) {
            size_t i = t * r->N + n;
            double nv = r->terminated[i]  ? 0
                        : r->truncated[i] ? (double)r->final_values[i]
                        : t + 1 < r->T    ? (double)r->prev_values[i + r->N]
                                          : (double)r->last_values[n];
            bool end = r->terminated[i] || r->truncated[i];
            after = (double)r->rewards[i] + .99 * nv - (double)r->prev_values[i] + (end ? 0 : .99 * lambda * after);
            A[i] = (float)after;
        }
    }
}

static void identities(struct big *b)
{
    static float A[TN], R[TN], B[TN], S[TN];
    struct mf_rollout r = random_rollout(b);
    run(usual, MF_GAE, &r, A, R);
    plain(&r, .95, B);
    ok(gap(A, B) < 1e-5, "blocks of environments give the result of one at a time");
    run((struct mf_advantage){.gamma = .99, .gae_lambda = 1}, MF_GAE, &r, A, R);
    run(usual, MF_MC, &r, B, S);
    ok(gap(A, B) < 2e-5, "lambda = 1 is mc (%g)", gap(A, B));
    run((struct mf_advantage){.gamma = .99, .n_step = 1000}, MF_NSTEP, &r, A, R);
    ok(memcmp(A, B, sizeof A) == 0, "a great n is mc, bit for bit");
    run((struct mf_advantage){.gamma = .99, .gae_lambda = 0}, MF_GAE, &r, A, R);
    run((struct mf_advantage){.gamma = .99, .n_step = 1}, MF_NSTEP, &r, B, S);
    ok(gap(A, B) < 1e-6, "lambda = 0 is n = 1 (%g)", gap(A, B));

    enum { CUT = 20 };
    for (int n = 0; n < N; n++)
        b->term[CUT * N - N + n] = 1;
    struct mf_rollout head = r, tail = r;
    head.T = CUT;
    tail.T = T - CUT;
    tail.rewards += CUT * N, tail.prev_values += CUT * N, tail.final_values += CUT * N;
    tail.terminated += CUT * N, tail.truncated += CUT * N;
    for (enum mf_estimator how = MF_GAE; how <= MF_NSTEP; how++) {
        run(usual, how, &r, A, R);
        run(usual, how, &head, B, S);
        run(usual, how, &tail, B + CUT * N, S + CUT * N);
        ok(!memcmp(A, B, sizeof A) && !memcmp(R, S, sizeof R), "estimator %d of episodes in a row is theirs in a row",
           how);
    }
}

/* Reset rows after each end, and everything after the first end of some environments, hold garbage. */
static void garbage(struct big *b)
{
    static float A[TN], R[TN];
    for (int soil = 0; soil < 3; soil++) {
        struct mf_rollout r = random_rollout(b);
        r.valid = b->valid;
        r.loss_mask = b->mask;
        const float dirt = soil == 1 ? NAN : 1e30f;
        for (int n = 0; n < N; n++)
            for (int t = 0, gone = 0; t < T; t++) {
                int i = t * N + n, end = b->term[i] | b->trunc[i];
                int reset = t && b->valid[i - N] && (b->term[i - N] | b->trunc[i - N]);
                b->valid[i] = !reset;
                b->mask[i] = !gone;
                if (soil && (reset || gone))
                    b->r[i] = b->v[i] = b->f[i] = dirt, b->term[i] = b->trunc[i] = 1;
                if (soil && (b->term[i] || !b->trunc[i]))
                    b->f[i] = dirt;
                if (soil && t == T - 1 && b->term[i]) /* dppo reads it after a time limit */
                    b->lv[n] = dirt;
                gone |= n % 3 == 0 && end && !reset;
            }
        for (enum mf_estimator how = MF_GAE; how <= MF_NSTEP; how++)
            for (int compat_ = MF_COMPAT_NONE; compat_ <= MF_COMPAT_SEED; compat_++) {
                struct mf_advantage a = usual;
                a.compat = compat_;
                static float clean[3][4][2][TN];
                float(*keep)[TN] = clean[how][compat_];
                run(a, how, &r, soil ? A : keep[0], soil ? R : keep[1]);
                if (soil)
                    ok(!memcmp(A, keep[0], sizeof A) && !memcmp(R, keep[1], sizeof R),
                       "estimator %d, compat %d: %g in masked entries changes no bit", how, compat_, (double)dirt);
            }
    }
    struct mf_rollout r = random_rollout(b);
    struct mf_err err;
    memset(b->term, 0, TN), memset(b->trunc, 0, TN);
    r.valid = b->valid;
    b->valid[5 * N + 3] = 0;
    ok(mf_advantage(&usual, MF_GAE, &r, A, R, &err) == MF_EFORMAT && strstr(err.text, "environment 3") &&
           strstr(err.text, "step 4"),
       "an episode that runs into a masked row without an end is refused: %s", err.text);
}

static void normalize(void)
{
    float a[] = {1, 2, 3, 4}, m[] = {1, 2, 3, NAN}, one[] = {5}, same[] = {.1f, .1f, .1f}, nothing[] = {NAN};
    static const double want[] = {-1.161894995, -.387298332, .387298332, 1.161894995};
    mf_advantage_normalize(a, NULL, 4);
    for (int i = 0; i < 4; i++)
        near(a[i], want[i], 1e-6, "normalised");
    mf_advantage_normalize(m, (const uint32_t[]){1, 1, 1, 0}, 4);
    ok(fabsf(m[0] + 1) < 1e-6f && m[1] == 0 && fabsf(m[2] - 1) < 1e-6f && m[3] == 0, "a masked NaN has no effect");
    float folded[] = {1, 2, 7}, copies[] = {1, 1, 1, 2, 7, 7};
    mf_advantage_normalize(folded, (const uint32_t[]){3, 1, 2}, 3);
    mf_advantage_normalize(copies, NULL, 6);
    ok(folded[0] == copies[0] && folded[1] == copies[3] && folded[2] == copies[4],
       "an entry that counts as its copies");
    mf_advantage_normalize(one, NULL, 1);
    mf_advantage_normalize(same, NULL, 3);
    mf_advantage_normalize(nothing, (const uint32_t[]){0}, 1);
    ok(one[0] == 0 && nothing[0] == 0, "one entry gives 0, so does none");
    ok(same[0] == 0 && same[1] == 0 && same[2] == 0, "a constant gives exactly 0");
}

int main(void)
{
    struct big *b = calloc(1, sizeof *b);
    tables();
    n_steps();
    compat();
    chunks();
    identities(b);
    garbage(b);
    normalize();
    free(b);
    return done();
}
