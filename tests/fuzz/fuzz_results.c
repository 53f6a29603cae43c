/* Files of results on any bytes: as mf-eval keeps them, and as a page shows them.
 *
 * rooms: eval plot
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plot/evals.h"
#include "eval/results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char dir[] = "/tmp/mf-fuzz-XXXXXX", path[64];
    static FILE *none;
    struct mf_err err;
    struct mf_results *r;
    struct mf_evals e = {0};
    if (!*path) {
        if (!mkdtemp(dir))
            abort();
        snprintf(path, sizeof path, "%s/r.jsonl", dir);
        none = fopen("/dev/null", "w");
    }
    FILE *f = fopen(path, "w");
    fwrite(data, 1, size, f);
    fclose(f);
    mf_evals_read(&e, 0, dir, "");
    mf_evals_sort(&e);
    mf_evals_put(&e, none);
    mf_evals_release(&e);
    if (mf_results_open(&r, path, &err) == 0 && mf_results_count(r) < 0)
        abort();
    mf_results_close(r);
    return 0;
}
