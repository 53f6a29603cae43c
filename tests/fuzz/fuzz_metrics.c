/* Metrics from anywhere: as a terminal's row, as the files of other tools, and as the history that plots and pages
 * read.
 *
 * rooms: rl plot series
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plot/summary.h"
#include "rl/report.h"
#include "wire/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[] = "/tmp/mf-fuzz-XXXXXX";
    static FILE *none, *file;
    const char *word = path;
    struct mf_err err;
    struct mf_run_logs t = {0};
    if (!none) {
        int fd = mkstemp(path);
        none = fopen("/dev/null", "w");
        file = fdopen(fd, "w");
    }
    if (ftruncate(fileno(file), 0) || pwrite(fileno(file), data, size, 0) != (ssize_t)size)
        abort();
    for (size_t n; (n = mf_token_span(data, size)); data += n, size -= n) {
        struct mf_frame *f;
        char words[200];
        if (mf_frame_decode(&f, data, n, &err))
            continue;
        mf_report_row(f, none);
        mf_report_words(f, words, sizeof words);
        mf_frame_free(f);
    }
    if (mf_run_logs_open(&t, &word, 1, &err) == 0)
        for (int i = 0; i < t.n_groups; i++)
            (void)mf_summary_of(&t.group[i], &(struct mf_goal){.success = .9, .window = 10});
    mf_run_logs_close(&t);
    return 0;
}
