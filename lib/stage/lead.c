/* lead.c - a stage in several ranks (ranks/ranks.h): rank 0 takes the stream in, and gives each frame to the stages of
 * all ranks. Whatever depends on time, files or peers is rank 0's to decide, so that all stages take the same steps.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "ranks/ranks.h"
#include "stage/stage_priv.h"

enum { PRECEDENCE = 3 }; /* s: rank 0 reports an error that all have, and so ends the others */

enum kind { FRAME, ENDED, OVER };

struct announcement { /* what follows it */
    enum kind kind;
    int signal; /* that rank 0 has caught */
    bool dealt; /* its observations come behind it */
    size_t bytes;
};

struct mf_ranks *mf_run_ranks(const struct mf_run *run)
{
    return run->ranks;
}

bool mf_run_leads(const struct mf_run *run)
{
    return mf_ranks_me(run->ranks) == 0;
}

int mf_run_share(const struct mf_run *run, void *bytes, size_t n, struct mf_err *err)
{
    return mf_ranks_broadcast(run->ranks, bytes, n, err);
}

/* As mpirun starts all but the first process. */
static bool reads_nothing(void)
{
    struct stat in, nothing;
    return fstat(STDIN_FILENO, &in) == 0 && S_ISCHR(in.st_mode) && stat("/dev/null", &nothing) == 0 &&
           in.st_rdev == nothing.st_rdev;
}

/* The first line of `own` that is another in rank 0's. */
static int compare_lines(const char *own, const char *first, struct mf_err *err)
{
    for (;;) {
        const int n = (int)strcspn(own, "\n"), m = (int)strcspn(first, "\n");
        if (n != m || memcmp(own, first, (size_t)n) != 0)
            return mf_err_set(err, MF_EUSAGE,
                              "%.*s, which is %.*s in rank 0: give all ranks the same program and words", n, own, m,
                              first);
        if (!own[n] || !first[m])
            return 0;
        own += n + 1, first += m + 1;
    }
}

/* Each rank computes its part by its own words: others would be a wrong result, which no check of the numbers shows. */
static int compare_words(const struct mf_run *run, struct mf_err *err)
{
    char *lines = mf_conf_lines(run->opt.conf, run->opt.binds), *own, *first;
    if (asprintf(&own, "%s=%s\n%s", run->opt.program, MF_VERSION, lines) < 0)
        own = mf_xstrdup("");
    size_t n = strlen(own) + 1;
    int rc = mf_ranks_broadcast(run->ranks, &n, sizeof n, err);
    first = mf_xcalloc(n, 1);
    if (mf_run_leads(run))
        memcpy(first, own, n);
    if (rc == 0 && (rc = mf_ranks_broadcast(run->ranks, first, n, err)) == 0)
        rc = mf_ranks_agree(run->ranks, compare_lines(own, first, err), err);
    free(lines);
    free(own);
    free(first);
    return rc;
}

int mf_lead_open(struct mf_run *run, struct mf_err *err)
{
    const char *use = mf_conf_text(run->opt.conf, "ranks");
    double patience;
    int me;
    const struct mf_bind limit[] = {{"ranks_timeout", 0}, {0}};
    if (run->stage->role == MF_TOOL)
        return 0;
    if (!mf_ranks_launched(&me))
        return run->stage->ranks && !strcmp(use, "auto") ? mf_ranks_check_hand(err) : 0;
    if (strcmp(use, "auto") != 0)
        return me && mf_stage_reads(run->stage) && !strcmp(run->opt.in, "-") && reads_nothing()
                   ? mf_err_set(err, MF_EUSAGE,
                                "ranks=off makes each process of mpirun a program of its own, and only the first has "
                                "a stream on stdin: give each its own --in, or leave out ranks=off, and they are one "
                                "learner")
                   : 0;
    if (!run->stage->ranks)
        return mf_err_set(err, MF_EUSAGE,
                          "started by mpirun or srun as one of several processes, but mf-%s does not divide its work: "
                          "start one, or give ranks=off, and each is a program of its own",
                          run->stage->name);
    int rc = mf_conf_bind(run->opt.conf, limit, &patience, err);
    if (rc || (rc = mf_ranks_open(&run->ranks, patience, err)) || (rc = compare_words(run, err)))
        return rc;
    mf_stop_hold(!mf_run_leads(run) || !mf_stage_reads(run->stage));
    if (mf_run_leads(run))
        mf_log(MF_LOG_INFO, "%d ranks divide each minibatch", mf_ranks_count(run->ranks));
    else
        mf_log_open(run->opt.program, MF_LOG_ERROR);
    return 0;
}

void mf_lead_close(struct mf_run *run, int status)
{
    mf_ranks_close(run->ranks, status);
    run->ranks = NULL;
}

static int broadcast(struct mf_run *run, struct announcement next, const void *bytes, struct mf_err *err)
{
    next.signal = mf_stop_caught();
    int rc = mf_ranks_broadcast(run->ranks, &next, sizeof next, err);
    if (rc == 0)
        rc = mf_ranks_broadcast(run->ranks, (void *)(uintptr_t)bytes, next.bytes, err);
    mf_stop_show(next.signal);
    return rc;
}

/* A frame to the other ranks. *own: what rank 0 keeps of one whose observations are shared out, else NULL. */
static int give(struct mf_run *run, enum kind kind, struct mf_frame *f, struct mf_frame **own, struct mf_err *err)
{
    struct announcement next = {.kind = kind};
    struct mf_array *all;
    void *bytes = NULL;
    int rc = mf_deal_take(run, f, &all, err);
    next.dealt = all != NULL;
    if (rc == 0 && (rc = mf_frame_encode(f, &bytes, &next.bytes, err)) == 0)
        rc = broadcast(run, next, bytes, err);
    if (rc == 0 && all && (rc = mf_frame_decode(own, bytes, next.bytes, err)) == 0)
        rc = mf_deal(run, *own, all, err);
    free(bytes);
    free(all);
    return rc;
}

/* To the stage of each rank: a frame, or the end of a source. Until it returns, signals wait for all ranks to meet. */
int mf_lead(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    const bool end = mf_frame_kind(f) == MF_END;
    int (*const take)(struct mf_run *, void *, struct mf_frame *, struct mf_err *) = run->stage->frame;
    struct mf_frame *own = NULL;
    int rc = run->ranks ? give(run, end ? ENDED : FRAME, f, &own, err) : 0;
    if (rc == 0) {
        mf_stop_hold(run->ranks != NULL);
        if (end)
            rc = run->stage->ended ? run->stage->ended(run, self, f, err) : 0;
        else
            rc = take ? take(run, self, own ? own : f, err) : mf_emit(run, f, err);
        mf_stop_hold(false);
        run->together = rc == MF_STOPPED;
    }
    mf_frame_free(own);
    return rc;
}

/* The others have left with rank 0 where they have stopped together, and leave once. */
int mf_lead_over(struct mf_run *run, struct mf_err *err)
{
    const bool await = run->ranks && mf_run_leads(run) && mf_stage_reads(run->stage) && !run->together;
    run->together |= await;
    return await ? broadcast(run, (struct announcement){.kind = OVER}, NULL, err) : 0;
}

/* ---- the other ranks ---- */

static int take(struct mf_run *run, void *self, const struct announcement *next, bool first, struct mf_err *err)
{
    struct mf_frame *f;
    void *bytes;
    int rc = mf_alloc(&bytes, next->bytes, "a frame from rank 0", err);
    if (rc)
        return rc;
    if ((rc = mf_ranks_broadcast(run->ranks, bytes, next->bytes, err)) == 0)
        rc = mf_frame_decode(&f, bytes, next->bytes, err);
    free(bytes);
    if (rc)
        return rc;
    if (next->dealt)
        rc = mf_deal(run, f, NULL, err);
    if (rc == 0 && next->kind == ENDED)
        rc = run->stage->ended ? run->stage->ended(run, self, f, err) : 0;
    else if (rc == 0 && (!first || (rc = mf_run_follow(run, self, f, err)) == 0))
        rc = run->stage->frame(run, self, f, err);
    mf_frame_free(f);
    return rc;
}

/* An error in the stream is rank 0's, too, which goes on without a source. */
int mf_follow_lead(struct mf_run *run, void *self, struct mf_err *err)
{
    for (bool first = true;; first = false) {
        struct announcement next = {.kind = FRAME};
        int rc = mf_ranks_broadcast(run->ranks, &next, sizeof next, err);
        if (rc)
            return rc;
        mf_stop_show(next.signal);
        if (next.kind == OVER)
            return 0;
        rc = take(run, self, &next, first, err);
        if (rc && rc != MF_EFORMAT)
            return rc;
    }
}

void mf_give_precedence(const struct mf_run *run, struct mf_err *err)
{
    int me;
    char host[64] = "", prefix[96];
    const char *use = run->opt.conf ? mf_conf_text(run->opt.conf, "ranks") : "auto";
    if (run->stage->role == MF_TOOL || strcmp(use, "off") == 0 || !mf_ranks_launched(&me) || me == 0)
        return;
    for (int i = 0; i < 10 * PRECEDENCE && !mf_stop_caught(); i++)
        usleep(100000);
    if (mf_stop_caught())
        *err->text = '\0';
    gethostname(host, sizeof host - 1);
    snprintf(prefix, sizeof prefix, "rank %d on %s", me, host);
    if (*err->text && strncmp(err->text, prefix, strlen(prefix)) != 0) /* all have it where they agreed on it */
        mf_err_at(err, "%s", prefix);
}
