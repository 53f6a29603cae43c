/* prompt.c - the time of a prompt: a task and a state of 8 numbers to ids, in the processor's time of one core. */
#include "bench.h"
#include "lang/prompt.h"

enum { IDS = 200, TURNS = 2000, TIMES = 10 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
    static const char task[] = "pick up the black bowl between the plate and the ramekin and place it on the plate";
    static const float state[8] = {-1, 1, .5f, .25f, 0, .1f, .2f, -.3f};
    struct mf_tokenizer t;
    struct mf_err err;
    int32_t ids[IDS];
    double best = 1;
    bench_must(mf_tokenizer_open(&t, "tests/fixtures/tokenizer.model", &err), &err);
    for (int k = 0; k < TIMES; k++) {
        const double begin = seconds();
        for (int i = 0; i < TURNS; i++)
            if (mf_prompt(&t, task, 8, state, IDS, ids, &err) < 0)
                bench_must(err.code, &err);
        const double took = (seconds() - begin) / TURNS;
        best = took < best ? took : best;
    }
    printf("prompt us=%.2f\n", 1e6 * best);
    mf_tokenizer_close(&t);
    return 0;
}
